package board

// files returns the files of the site by their names, with slashes.
func (d Data) files() (map[string][]byte, error) {
	data, err := d.encode()
	return map[string][]byte{dataFile: data}, err
}
