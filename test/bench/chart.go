package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// chart is a drawing of some curves over the same x. It is written by hand: what a library
// for plots would bring into the module is more than the lines below.
type chart struct {
	file, title string
	x, y        string // what x counts, and the unit of y
	curves      []curve
	// logarithmic is true if the axis y has a logarithmic scale.
	logarithmic bool
}

// curve is one of a chart.
type curve struct{ name, label string }

// drawn is a curve with its points, and where they are from.
type drawn struct {
	points []point
	origin string
}

// The sizes of a chart, in pixels.
const (
	chartWidth, chartHeight       = 640, 364
	plotLeft, plotTop             = 72, 40
	plotWidth, plotHeight         = 540, 212
	chartTicks                    = 4
	chartStyle                    = `<style>text{font:12px sans-serif;fill:#555}.t{font-size:14px;font-weight:bold}.g{stroke:#9995;stroke-width:1}.c{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#aaa}}</style>`
	legendTop, legendEach, noteAt = 300, 16, 354
)

// chartColors returns the colors of the curves, in order. They differ also for readers that cannot see red and
// green.
func chartColors() []string { return []string{"#d55e00", "#0072b2", "#009e73"} }

// draw draws the chart as SVG. The same points always give the same text.
func (c *chart) draw(all map[string]drawn) []byte {
	scale := c.scale(all)
	var b bytes.Buffer
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`, chartWidth, chartHeight)
	put(`<title>%s</title>%s`, html.EscapeString(c.title), chartStyle)
	put(`<text class="t" x="%d" y="20">%s</text>`, plotLeft, html.EscapeString(c.title))
	for _, v := range scale.ticks() {
		y := scale.position(point{Y: v}).Y
		put(`<path class="g" d="M%d %.1fh%d"/><text x="%d" y="%.1f" text-anchor="end">%s %s</text>`, plotLeft, y, plotWidth, plotLeft-6, y+4, short(v), c.y)
	}
	origin, labelled := "", map[float64]bool{}
	for i, drawnCurve := range c.curves {
		d, color, legend := all[drawnCurve.name], chartColors()[i%len(chartColors())], legendTop+i*legendEach
		var path strings.Builder
		path.WriteString("M")
		for _, p := range d.points {
			drawnAt := scale.position(p)
			fmt.Fprintf(&path, "%.1f %.1f ", drawnAt.X, drawnAt.Y)
			put(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s %s: %s %s</title></circle>`, drawnAt.X, drawnAt.Y, color, short(p.X), c.x, short(p.Y), c.y)
			if !labelled[p.X] {
				labelled[p.X] = true
				put(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, drawnAt.X, plotTop+plotHeight+16, short(p.X))
			}
		}
		if len(d.points) > 0 {
			put(`<path class="c" stroke="%s" d="%s"/>`, color, strings.TrimSuffix(path.String(), " "))
			origin = d.origin
		}
		put(`<path class="c" stroke="%s" d="M%d %dh14"/><text x="%d" y="%d">%s</text>`, color, plotLeft, legend-4, plotLeft+18, legend, html.EscapeString(drawnCurve.label))
	}
	put(`<text x="%d" y="%d" text-anchor="end">%s</text>`, plotLeft+plotWidth, plotTop+plotHeight+32, html.EscapeString(c.x))
	put(`<text x="%d" y="%d">%s</text>`, plotLeft, noteAt, html.EscapeString(origin))
	put(`</svg>`)
	return b.Bytes()
}

// scale is where a chart's points are.
type scale struct {
	x, low, high float64
	logarithmic  bool
}

// scale returns the scale that has room for all points.
func (c *chart) scale(all map[string]drawn) scale {
	s := scale{x: 1, low: math.Inf(1), high: 0, logarithmic: c.logarithmic}
	for _, drawnCurve := range c.curves {
		for _, p := range all[drawnCurve.name].points {
			s.x, s.low, s.high = max(s.x, p.X), min(s.low, p.Y), max(s.high, p.Y)
		}
	}
	if s.logarithmic && s.high > 0 {
		const least = 1e-3
		s.low, s.high = math.Pow(10, math.Floor(math.Log10(max(least, s.low)))), math.Pow(10, math.Ceil(math.Log10(max(2*least, s.high))))
		return s
	}
	s.logarithmic, s.low, s.high = false, 0, roundUp(s.high)
	return s
}

// roundUp is the next number of which a quarter is short.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8} {
		if v <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

// ticks are the values that have a line.
func (s scale) ticks() (all []float64) {
	if s.logarithmic {
		for v := s.low; v <= s.high*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for i := range chartTicks + 1 {
		all = append(all, s.high*float64(i)/chartTicks)
	}
	return all
}

// position is where a point is drawn.
func (s scale) position(p point) point {
	fraction := p.Y / s.high
	if s.logarithmic {
		fraction = math.Log10(max(s.low, p.Y)/s.low) / math.Log10(s.high/s.low)
	}
	return point{plotLeft + plotWidth*p.X/s.x, plotTop + plotHeight*(1-fraction)}
}

// short is a number with three digits that matter, or all before the point.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	rounded, err := strconv.ParseFloat(text, 64)
	if err != nil { // it has just been formatted
		return text
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
