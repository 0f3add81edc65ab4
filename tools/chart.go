package tools

import (
	"strconv"
	"strings"
)

// maxPoints bounds the columns of a chart's table.
const maxPoints = 10_000

// chart names a chart and writes the values it was drawn from, as far as the
// file keeps them: a row for each series.
func (p *parts) chart(relations map[string]relation, id string) string {
	name := mention(relations, "chart", id)
	if to := relations[id]; !to.part || !p.has(to.target) {
		return name
	}
	root, err := p.tree(relations[id].target)
	if err != nil {
		return name + " (not readable: " + plain(err) + ")"
	}
	var b strings.Builder
	b.WriteString(name)
	c := root.kid("*", "chart")
	var title strings.Builder
	for _, t := range c.kid("title").all("t") {
		title.WriteString(t.words())
	}
	if title.Len() > 0 {
		b.WriteString(" " + plainWords(title.String()))
	}
	b.WriteString("\n")
	for _, kind := range kinds(c.kid("plotArea")) {
		for _, s := range kind.all("ser") {
			if b.Len() > maxDocument {
				break
			}
			across := points(s, "cat", "xVal")
			tableRow(&b, append([]string{kind.name}, across...))
			tableRow(&b, append([]string{seriesName(s)}, points(s, "val", "yVal")...))
			if size := points(s, "bubbleSize"); len(size) > 0 {
				tableRow(&b, append([]string{"size"}, size...))
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// kinds are the charts that are drawn over each other: barChart, lineChart, …
func kinds(area *node) (found []*node) {
	if area == nil {
		return nil
	}
	for _, k := range area.kids {
		if strings.HasSuffix(k.name, "Chart") {
			found = append(found, k)
		}
	}
	return found
}

func seriesName(series *node) string {
	for _, v := range series.kid("tx").all("v") {
		return plainWords(v.words())
	}
	return ""
}

// points are the values of the first of the elements that a series has, by
// their indexes.
func points(series *node, names ...string) (values []string) {
	for _, name := range names {
		for _, pt := range series.kid(name).all("pt") {
			i, err := strconv.Atoi(pt.attr("idx"))
			if err != nil || i < 0 || i >= maxPoints {
				continue
			}
			for len(values) <= i {
				values = append(values, "")
			}
			values[i] = strings.TrimSpace(values[i] + " " + plainWords(pt.kid("v").words())) // of several levels
		}
		if values != nil {
			return values
		}
	}
	return nil
}
