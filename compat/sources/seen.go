package main

import (
	"fmt"
	"os"
)

// Prints a file, or why it cannot.
func main() {
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(string(data))
}
