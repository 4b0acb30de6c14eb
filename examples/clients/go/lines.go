package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// The lines of docs/client-protocol.md for a client in Go: what no library has to know.

// place of a record, or an offset in a partition.
type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Epoch     *int32 `json:"leader_epoch,omitempty"`
	Value     []byte `json:"value,omitempty"`
}

type command struct {
	Verb       string            `json:"verb"`
	ID         int               `json:"id"`
	TimeoutMs  int               `json:"timeout_ms"`
	Bootstrap  string            `json:"bootstrap"`
	Security   map[string]string `json:"security"`
	Client     settings          `json:"client"`
	Records    []place           `json:"records"`
	Topics     []string          `json:"topics"`
	Positions  []place           `json:"positions"`
	Partitions []place           `json:"partitions"`
	MaxRecords int               `json:"max_records"`
}

type object = map[string]any

// failed is the error of a command that had no effect, and never will.
type failed struct{ code string }

func (f failed) Error() string { return f.code }

// lines are one client's. report and happened may be called by any goroutine.
type lines struct {
	mutex   sync.Mutex
	reports map[int][]object
	events  []object
}

// report is what is known of a record of a send.
func (l *lines) report(send, record int, outcome string, offset int64, code string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	found := object{"record": record, "outcome": outcome, "offset": offset, "code": code}
	l.reports[send] = append(l.reports[send], found)
}

// happened is an event for the next answer.
func (l *lines) happened(event object) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.events = append(l.events, event)
}

// serve answers commands until standard input ends; then it ends, whatever the library still waits for.
// perform puts into the answer what it holds beside its outcome; failure says what an error tells.
func (l *lines) serve(perform func(context.Context, *command, object) error, failure func(error) object) {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	for decoder := json.NewDecoder(in); ; {
		var one command
		if err := decoder.Decode(&one); err != nil {
			os.Exit(0)
		}
		made := object{"id": one.ID, "outcome": "ok"}
		context, stop := context.WithTimeout(context.Background(), time.Duration(one.TimeoutMs)*time.Millisecond)
		err := perform(context, &one, made)
		stop()
		var refused failed
		if errors.As(err, &refused) || err != nil && one.Verb == "open" {
			made["outcome"], made["code"], made["message"] = "failed", fmt.Sprintf("%.200s", err), err.Error()
		} else if err != nil {
			made["outcome"] = "unknown"
			for name, value := range failure(err) {
				made[name] = value
			}
		}
		l.write(out, one.Verb, made)
	}
}

func (l *lines) write(out *json.Encoder, verb string, made object) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for send, some := range l.reports {
		out.Encode(object{"id": send, "reports": some})
	}
	l.reports = map[int][]object{}
	if verb == "send" {
		return
	}
	made["events"] = l.events
	l.events = []object{}
	out.Encode(made)
}
