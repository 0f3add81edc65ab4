package document

import "github.com/gaia-harness/gaia/internal/testkit/files"

// What the tests outside of the package use, which also fetch documents.
var (
	ArticlePage = articlePage
	ChildReader = childReader
	MakeBook    = files.MakeBook
	MakeDocx    = files.MakeDocx
	MakeODT     = files.MakeODT
	MakePDF     = files.MakePDF
	MakePptx    = files.MakePptx
	MakeZip     = files.MakeZip
)
