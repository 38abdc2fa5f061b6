"""Calls a rate limit service as any client with Envoy's protos would; prints the answers."""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

port, descriptors = sys.argv[1:]
files = descriptor_pb2.FileDescriptorSet()
with open(descriptors, "rb") as file:
    files.ParseFromString(file.read())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)


def message(name):
    found = pool.FindMessageTypeByName("envoy.service.ratelimit.v3." + name)
    return message_factory.GetMessageClass(found)


Request, Response = message("RateLimitRequest"), message("RateLimitResponse")
channel = grpc.insecure_channel("127.0.0.1:" + port)
ask = channel.unary_unary(
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    request_serializer=Request.SerializeToString,
    response_deserializer=Response.FromString,
)


def tell(**fields):
    request = json_format.ParseDict(fields, Request())
    try:
        answer = json_format.MessageToDict(ask(request, timeout=10))
    except grpc.RpcError as error:
        answer = {"code": error.code().name, "details": error.details()}
    print(json.dumps(answer))


alice = {"entries": [{"key": "user", "value": "alice"}]}
for _ in range(4):
    tell(domain="edge", descriptors=[alice])
tell(domain="edge", descriptors=[{**alice, "isNegativeHits": True}])
tell(domain="edge", descriptors=[{**alice, "hitsAddend": "0"}])
tell(domain="edge", descriptors=[{**alice, "limit": {"requestsPerUnit": 9, "unit": "HOUR"}}])
tell(domain="", descriptors=[alice])
