package org.apache.kafka.network;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.Optional;

import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.message.AddRaftVoterRequestData;
import org.apache.kafka.common.message.AddRaftVoterResponseData;
import org.apache.kafka.common.message.DescribeQuorumRequestData;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.RemoveRaftVoterRequestData;
import org.apache.kafka.common.message.RemoveRaftVoterResponseData;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.network.Send;
import org.apache.kafka.common.network.TransferableChannel;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AddRaftVoterRequest;
import org.apache.kafka.common.requests.AddRaftVoterResponse;
import org.apache.kafka.common.requests.DescribeQuorumRequest;
import org.apache.kafka.common.requests.DescribeQuorumResponse;
import org.apache.kafka.common.requests.EnvelopeRequest;
import org.apache.kafka.common.requests.EnvelopeResponse;
import org.apache.kafka.common.requests.RemoveRaftVoterRequest;
import org.apache.kafka.common.requests.RemoveRaftVoterResponse;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.network.metrics.RequestChannelMetrics;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

/**
 * A controller that leads no more answers a request that a broker forwarded. The envelope has to say
 * NOT_CONTROLLER: by that alone the broker looks for the controller anew, and forwards the request again.
 */
class VoterChangeForwardedTest {
    @ParameterizedTest
    @ValueSource(strings = {"ADD_RAFT_VOTER", "DESCRIBE_QUORUM"})
    void anAddedVoterFindsTheNextController(String api) throws IOException {
        assertEquals(Errors.NOT_CONTROLLER, envelopeOf(ApiKeys.valueOf(api)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"REMOVE_RAFT_VOTER", "DESCRIBE_QUORUM"})
    void aRemovedVoterFindsTheNextController(String api) throws IOException {
        assertEquals(Errors.NOT_CONTROLLER, envelopeOf(ApiKeys.valueOf(api)));
    }

    /** The error of the envelope in which the refusal of a forwarded request of this API is sent. */
    private static Errors envelopeOf(ApiKeys api) throws IOException {
        ByteBuffer inner = asked(api).serialize().buffer();
        Request envelope = received(ApiKeys.ENVELOPE, Optional.empty(),
            new EnvelopeRequest.Builder(inner.duplicate(), new byte[0], new byte[4]).build().serialize().buffer());
        Send sent = received(api, Optional.of(envelope), inner).buildResponseSend(refused(api));

        ByteBuffer bytes = ByteBuffer.allocate((int) sent.size());
        TransferableChannel channel = mock(TransferableChannel.class);
        when(channel.write(any(ByteBuffer[].class))).thenAnswer(write -> put(bytes, write.getArgument(0)));
        sent.writeTo(channel);
        bytes.flip().getInt(); // the size
        short version = ApiKeys.ENVELOPE.latestVersion();
        ResponseHeader.parse(bytes, ApiKeys.ENVELOPE.responseHeaderVersion(version));
        return EnvelopeResponse.parse(new ByteBufferAccessor(bytes), version).error();
    }

    private static AbstractRequest asked(ApiKeys api) {
        return switch (api) {
            case ADD_RAFT_VOTER -> new AddRaftVoterRequest.Builder(new AddRaftVoterRequestData()).build();
            case REMOVE_RAFT_VOTER -> new RemoveRaftVoterRequest.Builder(new RemoveRaftVoterRequestData()).build();
            default -> new DescribeQuorumRequest.Builder(new DescribeQuorumRequestData()).build();
        };
    }

    /** What ControllerApis.handleRaftRequest answers where this controller does not lead. */
    private static AbstractResponse refused(ApiKeys api) {
        short error = Errors.NOT_LEADER_OR_FOLLOWER.code();
        return switch (api) {
            case ADD_RAFT_VOTER -> new AddRaftVoterResponse(new AddRaftVoterResponseData().setErrorCode(error));
            case REMOVE_RAFT_VOTER ->
                new RemoveRaftVoterResponse(new RemoveRaftVoterResponseData().setErrorCode(error));
            default -> new DescribeQuorumResponse(new DescribeQuorumResponseData().setErrorCode(error));
        };
    }

    private static Request received(ApiKeys api, Optional<Request> envelope, ByteBuffer body) throws IOException {
        RequestHeader header = new RequestHeader(api, api.latestVersion(), "broker-1", 1);
        RequestContext context = new RequestContext(header, "1", InetAddress.getLoopbackAddress(),
            KafkaPrincipal.ANONYMOUS, new ListenerName("CONTROLLER"), SecurityProtocol.PLAINTEXT,
            ClientInformation.EMPTY, true);
        return new Request(1, context, 0, MemoryPool.NONE, body, mock(RequestChannelMetrics.class), envelope);
    }

    private static long put(ByteBuffer into, ByteBuffer[] buffers) {
        long before = into.position();
        for (ByteBuffer buffer : buffers)
            into.put(buffer);
        return into.position() - before;
    }
}
