package loader_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/gaia-harness/gaia/loader"
)

// A copy of the dataset is a file tree, here of one task; os.DirFS gives one of a folder. Tasks and gold
// answers are separate values, and a Gold that is printed shows none.
func ExampleLoad() {
	copied := fstest.MapFS{"2023/validation/metadata.jsonl": {Data: []byte(
		`{"task_id":"t1","Question":"How many arches carry the bridge?","Level":1,"Final answer":"17","file_name":""}` + "\n")}}
	set, gold, err := loader.Load(context.Background(), loader.Dir(copied, "copy", loader.Unpinned), loader.Validation, loader.Filter{Levels: []int{1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range set.Tasks {
		fmt.Println(task.ID, task.Question)
	}
	fmt.Println(gold)
	fmt.Println(gold.Map()["t1"])
	// Output:
	// t1 How many arches carry the bridge?
	// 1 gold answers (not shown)
	// 17
}
