// Command gateway speaks MongoDB's wire protocol on a loopback port and keeps the data in PostgreSQL with the
// DocumentDB extension. It is FerretDB's embeddable package and nothing else: the tests run the store on it where
// there is no mongod. It prints its URL once it listens, and ends on SIGTERM or SIGINT.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/v2/ferretdb"
)

func main() {
	postgres := flag.String("postgres", "", "URL of the PostgreSQL database with the DocumentDB extension")
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	state := flag.String("state", ".", "folder for FerretDB's own state")
	flag.Parse()

	telemetry := false
	gateway, err := ferretdb.New(&ferretdb.Config{
		PostgreSQLURL: *postgres,
		ListenAddr:    *listen,
		StateDir:      *state,
		LogLevel:      slog.LevelWarn,
		LogOutput:     os.Stderr,
		Telemetry:     &telemetry,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() { fmt.Println(gateway.MongoDBURI()) }()
	gateway.Run(ctx)
}
