// Creates a file of 1,000 lines in the directory given, and syncs, reads, renames and removes it,
// in several goroutines at the same time. Prints what it read.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func use(path string) []byte {
	file, err := os.Create(path)
	must(err)
	for line := 0; line < 1000; line++ {
		_, err := fmt.Fprintf(file, "line %6d\n", line)
		must(err)
	}
	must(file.Sync())
	_, err = file.Seek(0, io.SeekStart)
	must(err)
	must(os.Rename(path, path+".renamed"))
	must(os.Remove(path + ".renamed"))
	read, err := io.ReadAll(file)
	must(err)
	must(file.Close())
	return read
}

func main() {
	var all sync.WaitGroup
	var read [4][]byte
	for number := range read {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			read[number] = use(filepath.Join(os.Args[1], fmt.Sprint("made-", number)))
		}(number)
	}
	all.Wait()
	for _, other := range read {
		if !bytes.Equal(other, read[0]) {
			must(fmt.Errorf("they read different files"))
		}
	}
	fmt.Printf("%d bytes in %d lines\n", len(read[0]), bytes.Count(read[0], []byte("\n")))
}
