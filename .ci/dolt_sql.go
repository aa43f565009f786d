// Runs SQL on a database of the embedded Dolt that Beads keeps its issues in: the tests make
// hostile databases with it. `bd sql` does not do that. It is built inside the module of Beads.
//
// Usage: dolt_sql DIRECTORY DATABASE < STATEMENTS, one per line.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/steveyegge/beads/internal/storage/embeddeddolt"
)

func main() {
	ctx := context.Background()
	db, cleanup, err := embeddeddolt.OpenSQL(ctx, os.Args[1], os.Args[2], "main")
	lines := bufio.NewScanner(os.Stdin)
	for err == nil && lines.Scan() {
		_, err = db.ExecContext(ctx, lines.Text())
	}
	if err == nil {
		err = cleanup()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
