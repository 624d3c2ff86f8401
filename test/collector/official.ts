import { isDeepStrictEqual } from "node:util";
import root from "@opentelemetry/otlp-transformer/build/src/generated/root.js";

/** A class that protobufjs generated from OpenTelemetry's own definitions. */
interface MessageClass {
  verify(message: object): string | null;
  fromObject(object: object): object;
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
  toObject(message: object, options: object): object;
}

interface Packages {
  proto: { collector: { trace: { v1: { ExportTraceServiceRequest: MessageClass } } } };
}

const { opentelemetry } = root as unknown as { opentelemetry: Packages };
const Request = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;

/** In OpenTelemetry's JSON mapping these fields are hex; protobuf's own JSON has base64. */
const HEX_BYTES = new Map([
  ["traceId", 16],
  ["spanId", 8],
  ["parentSpanId", 8],
]);

/**
 * Deviations of a request's JSON from OpenTelemetry's definitions: an unknown field, a wrong type, or an id of the wrong length. The JSON
 * is encoded as protobuf and decoded again: a lost field is an unknown field.
 */
export function wrongIn(body: object): string[] {
  const wrong: string[] = [];
  const asBytes = (value: unknown, key = ""): unknown => {
    const bytes = HEX_BYTES.get(key);
    if (bytes !== undefined) {
      if (typeof value !== "string" || !new RegExp(`^(?!0+$)[0-9a-f]{${bytes * 2}}$`).test(value)) wrong.push(`${key} is ${value}`);
      return Buffer.from(String(value), "hex").toString("base64");
    }
    if (Array.isArray(value)) return value.map((one) => asBytes(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, asBytes(inner, name)]));
  };
  const given = asBytes(body) as object;
  const message = Request.fromObject(given);
  const problem = Request.verify(message);
  if (problem) wrong.push(problem);
  const read = Request.toObject(Request.decode(Request.encode(message).finish()), { longs: String, bytes: String });
  if (!isDeepStrictEqual(JSON.parse(JSON.stringify(read)), given)) wrong.push(`The decoded request is ${JSON.stringify(read)}`);
  return wrong;
}
