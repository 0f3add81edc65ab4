// Package heap has a ballast, which bounds how much garbage the program holds.
//
// A program that imports it has [Size] bytes of its heap counted as live, though they take no memory. With the rule of
// [Percent] a small run is then collected seldom, and a large one holds little more than what it uses. Where another rule is
// wanted, the [Ballast] is set to nil. The package imports nothing, so that its variable is made before those of others.
package heap

// Percent is how much of the live heap, with the ballast, may become garbage before it is collected. Go's own rule, 100 percent
// of what is live, takes twice the memory of a large run, and collects a small one too often.
const Percent = 25

// Size is that of the ballast, in bytes.
const Size = 16 << 20

// Ballast is a part of the heap that holds nothing. No page of it is ever touched, so that it takes no memory, but the
// collector counts it as live: a small heap may grow by a part of it as well. It is made before other packages begin, of
// memory that is new from the system: memory that was used before would have to be cleared, and be touched by that.
var Ballast = make([]byte, Size)
