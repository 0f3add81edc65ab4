package unpack

func (w *walker) gitPack(name string, data []byte, depth int) bool { return false }
func (w *walker) sqlite(name string, data []byte, depth int)       {}
func (w *walker) parquet(name string, data []byte) bool            { return false }
func (w *walker) encoded(path string, data []byte, depth int)      {}
