package main

import (
	"io"
	"time"
)

// redrawn is how often the bar is drawn.
const redrawn = 150 * time.Millisecond

// animate draws the bar now and then, until it is taken down. Its library would do
// that by itself, also over what a person types while somebody is asked.
func (p *progress) animate() {
	tick := time.NewTicker(redrawn)
	defer tick.Stop()
	for {
		select {
		case <-p.closed:
			return
		case <-tick.C:
			if !p.still.Load() {
				p.draw()
			}
		}
	}
}

func (p *progress) draw() {
	select {
	case p.redraw <- time.Now():
	case <-p.closed:
	}
}

// hold keeps the bar still until it is released; what is written meanwhile is
// shown at once.
func (p *progress) hold() { p.still.Store(true) }

func (p *progress) release() { p.still.Store(false) }

// tell writes text that ends a line, above the bar if there is one.
func (p *progress) tell(text string) { _, _ = io.WriteString(p, text) }
