package rundir

import (
	"path"
	"slices"
	"strings"
)

// intent names the kind of a task by its attachment and by the tools that ran: the kind of the attachment by its name's
// extension ("spreadsheet", "document", "presentation", "image", "audio", "video", "code", "archive", "data", "text",
// "file" for others; none without an attachment), "web" if something was searched or fetched, "code" if a program was
// run, "tools" if a tool of an MCP server was, joined by "+", each once. What needed nothing of these is "reasoning".
//
//	intent("prices.xlsx", []string{"python", "web_fetch"}) = "spreadsheet+web+code"
func intent(fileName string, toolsUsed []string) string {
	var parts []string
	add := func(part string) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if fileName != "" {
		add(attachmentKind(fileName))
	}
	if slices.Contains(toolsUsed, "web_search") || slices.Contains(toolsUsed, "web_fetch") {
		add("web")
	}
	if slices.Contains(toolsUsed, "python") {
		add("code")
	}
	if slices.ContainsFunc(toolsUsed, func(name string) bool { return strings.Contains(name, "__") }) { // as package tools names them: server__tool
		add("tools")
	}
	if len(parts) == 0 {
		return "reasoning"
	}
	return strings.Join(parts, "+")
}

// attachmentKind returns the kind of a file by its name. A compressed file has the kind of its content, as read_file
// reads it.
func attachmentKind(name string) string {
	name = strings.ToLower(name)
	inner := strings.TrimSuffix(name, ".gz")
	ext := strings.TrimPrefix(path.Ext(inner), ".")
	if ext == "" && inner != name {
		ext = "gz"
	}
	for _, row := range []string{
		"spreadsheet csv ods tab tsv xls xlsm xlsx",
		"document doc docm docx odt pdf rtf",
		"presentation odp ppt pptm pptx",
		"image bmp gif heic jpeg jpg png svg tif tiff webp",
		"audio aac flac m4a mp3 oga ogg opus wav",
		"video avi m4v mkv mov mp4 mpeg mpg webm",
		"code c cc cpp cs go h ipynb java js lua php pl py r rb rs sh sql swift ts",
		"archive 7z bz2 gz rar tar tgz xz zip",
		"data db geojson json jsonl jsonld npy parquet pdb sqlite toml xml yaml yml",
		"text htm html log md srt tex txt xhtml",
	} {
		if kind, extensions, _ := strings.Cut(row, " "); slices.Contains(strings.Fields(extensions), ext) {
			return kind
		}
	}
	return "file"
}
