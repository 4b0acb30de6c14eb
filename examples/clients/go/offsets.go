package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type offsets = map[string]map[int32]kgo.EpochOffset

func set(found offsets, at place, offset int64) {
	if found[at.Topic] == nil {
		found[at.Topic] = map[int32]kgo.EpochOffset{}
	}
	found[at.Topic][at.Partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
}

func offsetsOf(given []place) offsets {
	found := offsets{}
	for _, at := range given {
		set(found, at, at.Offset)
	}
	return found
}

func placesOf(known offsets) []place {
	found := []place{}
	for topic, some := range known {
		for number, at := range some {
			found = append(found, place{Topic: topic, Partition: number, Offset: at.Offset})
		}
	}
	return found
}

func partitionsOf(given []place) map[string][]int32 {
	found := map[string][]int32{}
	for _, at := range given {
		found[at.Topic] = append(found[at.Topic], at.Partition)
	}
	return found
}

// starts are where to read from: -2 is the beginning.
func starts(given []place) map[string]map[int32]kgo.Offset {
	found := map[string]map[int32]kgo.Offset{}
	for topic, some := range offsetsOf(given) {
		found[topic] = map[int32]kgo.Offset{}
		for number, at := range some {
			found[topic][number] = kgo.NewOffset().AtStart()
			if at.Offset >= 0 {
				found[topic][number] = kgo.NewOffset().At(at.Offset)
			}
		}
	}
	return found
}

func (c *client) commit(time context.Context, at offsets) (err error) {
	c.CommitOffsetsSync(time, at, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, found *kmsg.OffsetCommitResponse, why error) {
		err = why
		for i := 0; why == nil && i < len(found.Topics); i++ {
			for _, one := range found.Topics[i].Partitions {
				err = errors.Join(err, kerr.ErrorForCode(one.ErrorCode))
			}
		}
	})
	return err
}

// only is called before the session commits the offsets of all that was polled: the given ones take their place.
func (c *client) only(request *kmsg.TxnOffsetCommitRequest) error {
	request.Topics = nil
	for topic, some := range c.given {
		one := kmsg.NewTxnOffsetCommitRequestTopic()
		one.Topic = topic
		for number, at := range some {
			partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			partition.Partition, partition.Offset = number, at.Offset
			one.Partitions = append(one.Partitions, partition)
		}
		request.Topics = append(request.Topics, one)
	}
	return nil
}

// committed asks the group's coordinator, who waits for open transactions.
func (c *client) committed(time context.Context, partitions []place) ([]place, error) {
	asked := kmsg.NewPtrOffsetFetchRequest()
	asked.Group, asked.RequireStable = c.group, true
	for topic, some := range offsetsOf(partitions) {
		one := kmsg.NewOffsetFetchRequestTopic()
		one.Topic = topic
		for number := range some {
			one.Partitions = append(one.Partitions, number)
		}
		asked.Topics = append(asked.Topics, one)
	}
	answer, err := asked.RequestWith(time, c.Client)
	if err != nil {
		return nil, err
	}
	found := []place{}
	err = kerr.ErrorForCode(answer.ErrorCode)
	for _, topic := range answer.Topics {
		for _, one := range topic.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(one.ErrorCode))
			found = append(found, place{Topic: topic.Topic, Partition: one.Partition, Offset: one.Offset})
		}
	}
	return found, err
}
