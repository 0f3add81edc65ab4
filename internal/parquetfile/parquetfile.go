// Package parquetfile opens Parquet files that come from outside, within limits.
//
// The library allocates what a footer and the headers of pages claim before it reads any of it. [Open]
// checks the footer, and [CheckPages] the pages of a column, so that a hostile file fills no memory. Some
// malformed files make the library panic all the same: a caller recovers (loader.TestRefusals and
// history.TestImportRefuses show both).
package parquetfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of what a file may unfold to.
const (
	maxValues   = 100_000   // of a page
	maxUnfolded = 256 << 20 // bytes of a column's pages in a row group
	maxFooter   = 1 << 20   // bytes
)

// Open opens the file without its indexes, which no reader here needs. The library allocates as much as the
// footer and the lists in it claim to be long before it reads them, so they are checked first.
func Open(data []byte) (*parquet.File, error) {
	const magic = "PAR1"
	if len(data) < 12 || string(data[:4]) != magic || string(data[len(data)-4:]) != magic {
		return nil, errors.New("not a parquet file, or cut short")
	}
	body := data[:len(data)-8]
	size := int64(binary.LittleEndian.Uint32(data[len(body):]))
	if size > int64(len(body)-4) || size > maxFooter {
		return nil, fmt.Errorf("a footer of %d bytes in a file of %d", size, len(data))
	}
	// A struct without fields makes the decoder pass over all there is.
	footer := new(thrift.CompactProtocol).NewReaderFromBytes(body[len(body)-int(size):])
	if err := thrift.NewDecoder(footer).Decode(new(struct{})); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// CheckPages checks the page headers of a column chunk: the library allocates what they claim before it reads a page.
func CheckPages(data []byte, chunk *format.ColumnMetaData) error {
	start := chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		start = chunk.DictionaryPageOffset
	}
	if size := int64(len(data)); start < 0 || start > size || chunk.TotalCompressedSize < 0 || chunk.TotalCompressedSize > size-start {
		return errors.New("pages outside the file")
	}
	unfolded := int64(0)
	for rest := data[start : start+chunk.TotalCompressedSize]; len(rest) > 0; {
		var h format.PageHeader
		r := new(thrift.CompactProtocol).NewReaderFromBytes(rest)
		if err := thrift.NewDecoder(r).Decode(&h); err != nil {
			return fmt.Errorf("page header: %w", err)
		}
		rest = rest[r.BytesRead():]
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(rest) {
			return fmt.Errorf("a page of %d bytes where %d are left", h.CompressedPageSize, len(rest))
		}
		if n := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues); n > maxValues {
			return fmt.Errorf("a page of %d values: want at most %d", n, maxValues)
		}
		page := rest[:h.CompressedPageSize]
		if unfolded += max(int64(h.UncompressedPageSize), snappySize(chunk.Codec, &h, page)); unfolded > maxUnfolded {
			return fmt.Errorf("pages that unfold to %d bytes: want at most %d", unfolded, maxUnfolded)
		}
		rest = rest[h.CompressedPageSize:]
	}
	return nil
}

// snappySize is the length that a snappy block claims for itself, which its decoder believes; 0 under other codecs.
func snappySize(codec format.CompressionCodec, h *format.PageHeader, page []byte) int64 {
	if codec != format.Snappy {
		return 0
	}
	if v2 := h.DataPageHeaderV2; v2.Valid {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return 0
		}
		// The levels stand before the block.
		levels := int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if levels < 0 || levels > int64(len(page)) {
			return 0
		}
		page = page[levels:]
	}
	size, _ := binary.Uvarint(page)
	return int64(min(size, 1<<32))
}
