package org.apache.kafka.server.transaction;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResult;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResultCollection;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResultCollection;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.transaction.AddPartitionsToTxnManager.TransactionSupportedOperation;
import org.apache.kafka.server.util.RequestAndCompletionHandler;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.ArgumentMatchers.anyString;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

/**
 * A leader asks the coordinator about the transactions of an old and of a newer client in one request. Neither
 * transaction has the partition. What each client is answered is asked of Kafka's AddPartitionsToTxnManager; the
 * coordinator's answer is made for the test.
 */
class MixedClientVersionsTest {
    private static final TopicPartition P0 = new TopicPartition("__consumer_offsets", 0);
    private static final TransactionSupportedOperation OLD =
        AddPartitionsToTxnManager.txnOffsetCommitRequestVersionToTransactionSupportedOperation(3);
    private static final TransactionSupportedOperation NEWER =
        AddPartitionsToTxnManager.txnOffsetCommitRequestVersionToTransactionSupportedOperation(4);

    /** A Java producer aborts after the right error, and has to be closed after INVALID_TXN_STATE. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aNewerClientMayAbort(boolean theOldOneAsksFirst) {
        assertEquals(Errors.TRANSACTION_ABORTABLE, answers(theOldOneAsksFirst).get(NEWER));
    }

    /** The twin: the newer client asks last. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anOldClientGetsAnErrorThatItKnows(boolean theOldOneAsksFirst) {
        assertEquals(Errors.INVALID_TXN_STATE, answers(theOldOneAsksFirst).get(OLD));
    }

    private static Map<TransactionSupportedOperation, Errors> answers(boolean theOldOneAsksFirst) {
        AddPartitionsToTxnManager manager = manager();
        Map<TransactionSupportedOperation, Errors> answers = new HashMap<>();
        for (TransactionSupportedOperation client : theOldOneAsksFirst ? List.of(OLD, NEWER) : List.of(NEWER, OLD))
            manager.addOrVerifyTransaction(client.name(), client.ordinal(), (short) 0, List.of(P0),
                errors -> answers.put(client, errors.get(P0)), client);

        List<RequestAndCompletionHandler> requests = List.copyOf(manager.generateRequests());
        assertEquals(1, requests.size(), "one request for both");
        RequestHeader header = new RequestHeader(ApiKeys.ADD_PARTITIONS_TO_TXN, (short) 5, "leader", 0);
        requests.get(0).handler.onComplete(new ClientResponse(header, null, "0", 0, 0, false, null, null,
            new AddPartitionsToTxnResponse(refusal())));
        return answers;
    }

    /** The coordinator finds the partition in neither transaction. */
    private static AddPartitionsToTxnResponseData refusal() {
        AddPartitionsToTxnResultCollection results = new AddPartitionsToTxnResultCollection();
        for (TransactionSupportedOperation client : List.of(OLD, NEWER)) {
            AddPartitionsToTxnPartitionResultCollection partitions = new AddPartitionsToTxnPartitionResultCollection();
            partitions.add(new AddPartitionsToTxnPartitionResult().setPartitionIndex(P0.partition())
                .setPartitionErrorCode(Errors.TRANSACTION_ABORTABLE.code()));
            AddPartitionsToTxnTopicResultCollection topics = new AddPartitionsToTxnTopicResultCollection();
            topics.add(new AddPartitionsToTxnTopicResult().setName(P0.topic()).setResultsByPartition(partitions));
            results.add(new AddPartitionsToTxnResult().setTransactionalId(client.name()).setTopicResults(topics));
        }
        return new AddPartitionsToTxnResponseData().setResultsByTransaction(results);
    }

    private static AddPartitionsToTxnManager manager() {
        MetadataCache metadata = mock(MetadataCache.class);
        when(metadata.getLeaderAndIsr(anyString(), anyInt())).thenReturn(Optional.of(new LeaderAndIsr(1, List.of(1))));
        when(metadata.getAliveBrokerNode(anyInt(), any())).thenReturn(Optional.of(new Node(1, "coordinator", 9092)));
        return new AddPartitionsToTxnManager(mock(AbstractKafkaConfig.class), mock(NetworkClient.class), metadata,
            transactionalId -> 0, Time.SYSTEM);
    }
}
