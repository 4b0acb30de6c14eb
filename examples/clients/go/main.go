// franz-go as a client of Inquest (--client examples/clients/go/client).
package main

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var fatal = []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.OutOfOrderSequenceNumber}

type client struct {
	lines
	*kgo.Client
	session       *kgo.GroupTransactSession // of one that reads in a group and writes in transactions
	group         string
	transactional bool
	open          bool                  // a transaction is
	broken        atomic.Pointer[error] // an error of a record in it
	given         offsets               // to it
	next          offsets               // after what polls have returned
	direct        map[string][]int32    // assigned without a group
}

func main() {
	its := &client{lines: lines{reports: map[int][]object{}, events: []object{}}, next: offsets{}}
	its.serve(its.perform, its.failure)
}

func (c *client) perform(time context.Context, one *command, answer object) error {
	switch one.Verb {
	case "open":
		answer["name"] = "franz-go " + version()
		return c.start(one)
	case "init":
		_, _, err := c.ProducerID(time)
		return err
	case "send":
		c.send(one)
	case "flush":
		return c.Flush(time)
	case "begin":
		c.open, c.given = true, offsets{}
		c.broken.Store(nil)
		return c.BeginTransaction()
	case "commit", "abort":
		return c.end(time, kgo.TransactionEndTry(one.Verb == "commit"))
	case "offsets_to_transaction": // they go with the end of the transaction
		polled := c.UncommittedOffsets()
		for _, at := range one.Positions {
			if _, known := polled[at.Topic][at.Partition]; !known {
				return failed{"the session commits only partitions that it polled"}
			}
		}
		c.given = offsetsOf(one.Positions)
	case "subscribe":
		c.AddConsumeTopics(one.Topics...)
	case "assign":
		c.assign(one.Positions)
	case "seek":
		c.seek(one.Positions)
	case "poll":
		answer["records"] = c.poll(time, one.MaxRecords)
	case "position":
		answer["positions"] = placesOf(c.next)
	case "committed":
		found, err := c.committed(time, one.Partitions)
		if err == nil { // else there is no list, and `null` is not one
			answer["positions"] = found
		}
		return err
	case "commit_offsets":
		return c.commit(time, offsetsOf(one.Positions))
	case "close":
		return c.LeaveGroupContext(time)
	default:
		return failed{"no verb " + one.Verb}
	}
	return nil
}

func (c *client) start(one *command) error {
	found, err := options(one)
	if err != nil {
		return err
	}
	if one.Client.Consumer != nil {
		c.group = one.Client.Consumer.Group
	}
	if c.group != "" {
		found = append(found, kgo.OnPartitionsAssigned(c.changed("assigned")),
			kgo.OnPartitionsRevoked(c.changed("revoked")), kgo.OnPartitionsLost(c.changed("lost")))
	}
	c.transactional = one.Client.Producer != nil && one.Client.Producer.Transactional != ""
	if c.transactional && c.group != "" {
		if c.session, err = kgo.NewGroupTransactSession(found...); err == nil {
			c.Client = c.session.Client()
		}
		return err
	}
	c.Client, err = kgo.NewClient(found...)
	return err
}

func (c *client) send(one *command) {
	for n, record := range one.Records {
		if c.transactional && !c.open {
			c.report(one.ID, n, "failed", -1, "INVALID_TXN_STATE")
			continue
		}
		made := &kgo.Record{Topic: record.Topic, Partition: record.Partition, Value: record.Value}
		c.Produce(context.Background(), made, func(done *kgo.Record, err error) {
			if err == nil {
				c.report(one.ID, n, "ok", done.Offset, "")
			} else { // it is of the last attempt: an earlier one may have been written
				c.broken.Store(&err)
				c.report(one.ID, n, "unknown", -1, code(err))
			}
		})
	}
}

func (c *client) end(time context.Context, how kgo.TransactionEndTry) error {
	if !c.open { // the session has aborted it
		return nil
	}
	if how == kgo.TryCommit { // as far as records are: franz-go commits what is there
		if err := c.Flush(time); err != nil {
			return err
		}
		if err := c.broken.Load(); err != nil {
			return *err
		}
	}
	c.open = false
	if c.session != nil {
		committed, err := c.session.End(kgo.PreTxnCommitFnContext(time, c.only), how)
		if err == nil && how == kgo.TryCommit && !committed {
			return failed{"the group changed: aborted"}
		}
		return err
	}
	if how == kgo.TryAbort {
		if err := c.AbortBufferedRecords(time); err != nil {
			return err
		}
	}
	return c.EndTransaction(time, how)
}

func (c *client) assign(those []place) {
	c.RemoveConsumePartitions(c.direct)
	c.direct, c.next = partitionsOf(those), offsets{}
	c.AddConsumePartitions(starts(those))
}

// seek to offsets, or to the beginning, which a group of franz-go cannot.
func (c *client) seek(those []place) {
	for _, at := range those {
		delete(c.next[at.Topic], at.Partition)
	}
	if c.group != "" {
		c.SetOffsets(offsetsOf(those))
		return
	}
	c.RemoveConsumePartitions(partitionsOf(those))
	c.AddConsumePartitions(starts(those))
}

func (c *client) poll(time context.Context, most int) []place {
	found := []place{}
	c.AllowRebalance()
	fetched := c.PollRecords(time, most)
	fetched.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			c.happened(object{"event": "error", "code": code(err), "message": err.Error()})
		}
	})
	fetched.EachRecord(func(one *kgo.Record) {
		at := place{one.Topic, one.Partition, one.Offset, &one.LeaderEpoch, one.Value}
		found = append(found, at)
		set(c.next, at, one.Offset+1)
	})
	return found
}

func (c *client) changed(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, those map[string][]int32) {
		for topic, numbers := range those {
			for _, number := range numbers {
				delete(c.next[topic], number)
				one := []object{{"topic": topic, "partition": number}}
				c.happened(object{"event": event, "partitions": one})
			}
		}
	}
}

func (c *client) failure(err error) object {
	found := object{"code": code(err), "message": err.Error(), "wants_abort": c.open}
	for _, one := range fatal {
		if errors.Is(err, one) {
			found["fatal"] = true
		}
	}
	return found
}

func code(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

func version() string {
	built, _ := debug.ReadBuildInfo()
	for _, module := range built.Deps {
		if module.Path == "github.com/twmb/franz-go" {
			return module.Version
		}
	}
	return ""
}
