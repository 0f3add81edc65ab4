// Package parquetfile opens Parquet files that come from outside, within limits.
//
// The library allocates what a footer and the headers of pages claim before it reads any of it. [Open]
// checks the footer, and [CheckPages] and [CheckGroups] the pages, so that a hostile file fills no memory. Some
// malformed files make the library panic all the same: a caller recovers (loader.TestRefusals and
// history.TestImportRefuses show both).
package parquetfile

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// Limits of what a file may unfold to.
const (
	maxValues   = 100_000   // of a page
	maxUnfolded = 256 << 20 // bytes of a column's pages in a row group
	maxFooter   = 1 << 20   // bytes
	valueBytes  = 24        // of a value in a row
	maxWindow   = 64 << 20  // bytes that zstd remembers
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

// CheckPages checks the pages of a column chunk: the library allocates what their headers claim before it reads a page, and all
// that a packed page holds.
func CheckPages(data []byte, chunk *format.ColumnMetaData) error {
	_, _, err := pages(data, chunk)
	return err
}

// CheckGroups checks the pages of all columns for a reader of rows, which holds a page of each at once: those of a row group do
// not overlap, and unfold together to no more than one column may by itself. It returns how many bytes all of them unfold to.
func CheckGroups(data []byte, file *parquet.File) (unfolded int64, err error) {
	type interval struct{ start, end int64 }
	groups := file.Metadata().RowGroups
	for _, group := range groups {
		var taken []interval
		sum := int64(0)
		for i := range group.Columns {
			chunk := &group.Columns[i].MetaData
			if i >= len(groups[0].Columns) || chunk.Codec != groups[0].Columns[i].MetaData.Codec { // the library unpacks with that of the first
				return 0, errors.New("row groups that are packed differently")
			}
			start, size, err := pages(data, chunk)
			if err != nil {
				return 0, err
			}
			if sum += size; sum > maxUnfolded {
				return 0, fmt.Errorf("columns that unfold to %d bytes: want at most %d", sum, maxUnfolded)
			}
			taken = append(taken, interval{start, start + chunk.TotalCompressedSize})
		}
		slices.SortFunc(taken, func(a, b interval) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
		for i := 1; i < len(taken); i++ {
			if taken[i].start < taken[i-1].end {
				return 0, errors.New("columns that overlap")
			}
		}
		unfolded += sum
	}
	return unfolded, nil
}

// pages checks the pages of a column chunk, and returns where they begin and how many bytes they unfold to.
func pages(data []byte, chunk *format.ColumnMetaData) (start, unfolded int64, err error) {
	start = chunk.DataPageOffset
	if chunk.DictionaryPageOffset != 0 {
		start = chunk.DictionaryPageOffset
	}
	if size := int64(len(data)); start < 0 || start > size || chunk.TotalCompressedSize < 0 || chunk.TotalCompressedSize > size-start {
		return 0, 0, errors.New("pages outside the file")
	}
	for rest := data[start : start+chunk.TotalCompressedSize]; len(rest) > 0; {
		var h format.PageHeader
		r := new(thrift.CompactProtocol).NewReaderFromBytes(rest)
		if err := thrift.NewDecoder(r).Decode(&h); err != nil {
			return 0, 0, fmt.Errorf("page header: %w", err)
		}
		rest = rest[r.BytesRead():]
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(rest) {
			return 0, 0, fmt.Errorf("a page of %d bytes where %d are left", h.CompressedPageSize, len(rest))
		}
		values := max(h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues)
		if values > maxValues {
			return 0, 0, fmt.Errorf("a page of %d values: want at most %d", values, maxValues)
		}
		if levels := h.DataPageHeaderV2.V; h.UncompressedPageSize < 0 || levels.RepetitionLevelsByteLength < 0 || levels.DefinitionLevelsByteLength < 0 {
			return 0, 0, errors.New("a page with negative sizes")
		}
		size, page := int64(h.UncompressedPageSize), packed(chunk.Codec, &h, rest[:h.CompressedPageSize])
		if chunk.Codec == format.Snappy {
			size = max(size, snappySize(page))
		}
		if h.DataPageHeader.V.Encoding == format.DeltaByteArray || h.DataPageHeaderV2.V.Encoding == format.DeltaByteArray {
			size *= max(int64(values), 1) // each may repeat all before it
		}
		if unfolded += max(size, valueBytes*int64(values)); unfolded > maxUnfolded {
			return 0, 0, fmt.Errorf("pages that unfold to %d bytes: want at most %d", unfolded, maxUnfolded)
		}
		if err := unfolds(chunk.Codec, page, int64(h.UncompressedPageSize)); err != nil {
			return 0, 0, err
		}
		rest = rest[h.CompressedPageSize:]
	}
	return start, unfolded, nil
}

// packed is what of a page its codec unpacks.
func packed(codec format.CompressionCodec, h *format.PageHeader, page []byte) []byte {
	if codec == format.Uncompressed {
		return nil
	}
	if h.Type != format.DataPageV2 { // whatever other headers it has
		return page
	}
	v2 := h.DataPageHeaderV2.V
	if v2.IsCompressed.Valid && !v2.IsCompressed.V {
		return nil
	}
	return page[min(int64(len(page)), int64(v2.RepetitionLevelsByteLength)+int64(v2.DefinitionLevelsByteLength)):] // the levels stand before it
}

// snappySize is the length that a snappy block claims for itself, which its decoder believes.
func snappySize(page []byte) int64 {
	size, _ := binary.Uvarint(page)
	return int64(min(size, 1<<32))
}

// unfolds returns an error where a page unpacks to more than it claims to, or cannot be unpacked: the library's decoders give all
// there is.
func unfolds(codec format.CompressionCodec, page []byte, claimed int64) error {
	if len(page) == 0 {
		return nil
	}
	var r io.Reader
	var err error
	switch codec {
	case format.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(page))
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(page))
	case format.Zstd:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(bytes.NewReader(page), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)); err == nil {
			defer d.Close()
		}
		r = d
	case format.Lz4Raw:
		_, err = lz4.UncompressBlock(page, make([]byte, claimed))
	}
	if err == nil && r != nil {
		var n int64
		if n, err = io.Copy(io.Discard, io.LimitReader(r, claimed+1)); n > claimed {
			err = fmt.Errorf("it unfolds to more than the %d bytes that it claims", claimed)
		}
	}
	if err != nil {
		return fmt.Errorf("a page: %w", err)
	}
	return nil
}
