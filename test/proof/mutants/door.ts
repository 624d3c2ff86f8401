// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with its placeholders.
import { mutantsOf } from "./mutant.ts";

const BODIES = "test/api/bodies.test.ts";
const CLOUD_EVENTS = "test/api/cloud-events.test.ts";
const LIMITS = "test/api/request-limits.test.ts";
const TRACE = "test/app/trace.test.ts";

/** Requests that the API must refuse, or responses that it must not return. */
export const DOOR = mutantsOf("door", {
  "invalid UTF-8 bytes are replaced instead of refused": {
    file: "packages/millrace/src/http/body.ts",
    find: "{ fatal: true, ignoreBOM: false }",
    put: "{ fatal: false, ignoreBOM: false }",
    killedBy: BODIES,
  },
  "the last of two equal JSON keys wins without an error": {
    file: "packages/millrace/src/contract/limits.ts",
    find: "if (kept.fields < fields) refuse",
    put: "if (kept.fields > fields) refuse",
    killedBy: BODIES,
  },
  "NUL is taken": {
    file: "packages/millrace/src/contract/limits.ts",
    find: '{ at, nul: !text.includes("\\\\u0000") }',
    put: "{ at, nul: true }",
    killedBy: BODIES,
  },
  "the items of a JSON list are counted only after their parsing": {
    file: "packages/millrace/src/contract/limits.ts",
    find: "if (counted.items > INTAKE_LIMITS.maxKeys) {",
    put: "if (counted.items < 0) {",
    killedBy: BODIES,
  },
  "an integer is read as the nearest double": {
    file: "packages/millrace/src/contract/json-text.ts",
    find: "return size < LARGEST_PLAIN || ",
    put: "return size === 0 && ",
    killedBy: "test/api/numbers.test.ts",
  },
  "a number close to zero is read as zero": {
    file: "packages/millrace/src/contract/json-text.ts",
    find: "if (size === 0) return",
    put: "if (size < 0) return",
    killedBy: "test/api/numbers.test.ts",
  },
  "one invalid item causes the refusal of all items": {
    file: "packages/millrace/src/contract/limits.ts",
    find: "if (!items || !(error",
    put: "if (items || !(error",
    killedBy: "test/api/wrong-items.test.ts",
  },
  "a compressed body is read without decompression": {
    file: "packages/millrace/src/http/body.ts",
    find: 'if (encoding !== "identity") {',
    put: 'if (encoding === "") {',
    killedBy: BODIES,
  },
  "a body in another character encoding is read as UTF-8": {
    file: "packages/millrace/src/http/body.ts",
    find: "if (PLAIN.has(charset.toLowerCase())) continue;",
    put: "if (charset) continue;",
    killedBy: BODIES,
  },
  "a refused body is not read to its end": {
    file: "packages/millrace/src/http/engine-routes.ts",
    find: "if (context.res.status >= 400 && !unmatched",
    put: "if (context.res.status >= 600 && !unmatched",
    killedBy: BODIES,
  },
  "the search for a similar name accepts a name of any length": {
    file: "packages/millrace/src/contract/nearest.ts",
    find: "if (name.length > MAX_MEASURED_CHARACTERS) return undefined;",
    put: "",
    killedBy: "test/engine/contract/nearest.test.ts",
  },
  "every issue of a body is returned, without a limit": {
    file: "packages/millrace/src/contract/known-fields.ts",
    find: "export const MAX_ISSUES = 50;",
    put: "export const MAX_ISSUES = 50_000;",
    killedBy: BODIES,
  },
  "two Idempotency-Key headers of a request are read as one key": {
    file: "packages/millrace/src/http/headers.ts",
    find: "const BARE = /^[\\x21-\\x2b\\x2d-\\x7e][\\x20-\\x2b\\x2d-\\x7e]*$/;",
    put: "const BARE = /^[\\x21-\\x7e][\\x20-\\x7e]*$/;",
    killedBy: "test/api/commands.test.ts",
  },
  "a null attribute of a CloudEvent counts as a value": {
    file: "packages/millrace/src/http/cloud-events.ts",
    find: "schema.nullish().transform(",
    put: "schema.optional().transform(",
    killedBy: CLOUD_EVENTS,
  },
  "replaced bytes of a header are accepted": {
    file: "packages/millrace/src/http/cloud-events.ts",
    find: "if (!/^[\\x20-\\x7e]*$/.test(value)) throw",
    put: 'if (value === "\\0") throw',
    killedBy: CLOUD_EVENTS,
  },
  "a CloudEvent attribute that was sent twice counts as one": {
    file: "packages/millrace/src/http/cloud-events.ts",
    find: 'if (quoted === undefined && value.includes(", ")) throw',
    put: 'if (quoted === "" && value.includes(", ")) throw',
    killedBy: CLOUD_EVENTS,
  },
  "a CloudEvent in binary mode is refused when its content type is a JSON type such as application/problem+json": {
    file: "packages/millrace/src/http/cloud-events.ts",
    find: "{ isTaken: isJsonType, maxBytes }",
    put: "{ maxBytes }",
    killedBy: CLOUD_EVENTS,
  },
  "requests without a token are not counted": {
    file: "packages/millrace/src/http/request-limits.ts",
    find: "if (!knowing.includes(first)) await countStranger",
    put: 'if (first === "none") await countStranger',
    killedBy: LIMITS,
  },
  "each address of a network is counted separately": {
    file: "packages/millrace/src/http/request-limits.ts",
    find: 'parsed.parts.slice(0, 4).join(":")',
    put: "address",
    killedBy: LIMITS,
  },
  "requests with a token are not counted": {
    file: "packages/millrace/src/http/request-limits.ts",
    find: "const waitMs = await countedHere(env, name, window);",
    put: "const waitMs = caller.id ? 0 : await countedHere(env, name, window);",
    killedBy: LIMITS,
  },
  "each descendant of a token has its own limit": {
    file: "packages/millrace/src/http/request-limits.ts",
    find: "const name = `requests/token ${caller.rootId}`;",
    put: "const name = `requests/token ${caller.id}`;",
    killedBy: LIMITS,
  },
  "a deleted token can create tokens": {
    file: "packages/millrace/src/store/tokens.ts",
    find: "mintedBy === undefined ? sql`true` : isGood(tenantId, mintedBy)",
    put: "sql`true`",
    killedBy: "test/api/tokens.test.ts",
  },
  "the patterns of the OpenAPI document are valid in JavaScript only": {
    file: "packages/millrace/src/contract/chosen-name.ts",
    find: "= /^[^\\u0000-\\u001f\\u007f-\\u009f]*$/;",
    put: "= /^\\P{Cc}*$/u;",
    killedBy: "test/api/openapi.test.ts",
  },
  "the operations of the OpenAPI document have no group": {
    file: "packages/millrace/src/http/openapi.ts",
    find: "operation.tags = [tagOf(path, groups)];",
    put: "operation.tags ??= path ? [] : [tagOf(path, groups)];",
    killedBy: "test/api/openapi.test.ts",
  },
  "the Idempotency-Key of an endpoint is ignored": {
    file: "src/api/webhooks.ts",
    find: "register(env, by(context), config, key)",
    put: "register(env, by(context), config, undefined)",
    killedBy: "test/api/idempotency-keys.test.ts",
  },
  "an Idempotency-Key is accepted by a route that ignores it": {
    file: "packages/millrace/src/http/router.ts",
    find: '!named.includes("idempotency-key")',
    put: 'named.includes("idempotency-key")',
    killedBy: "test/api/idempotency-keys.test.ts",
  },
  "a token can grant scopes that it lacks": {
    file: "packages/millrace/src/access/tokens.ts",
    find: "grant.scopes.find((scope) => !by.scopes.includes(scope))",
    put: "grant.scopes.find((scope) => scope === undefined)",
    killedBy: "test/api/tokens.test.ts",
  },
  "an effect is confirmed without its output": {
    file: "packages/millrace/src/http/routes/effects.ts",
    find: "(output) => output !== undefined,",
    put: "(output) => output !== null || output === null,",
    killedBy: "test/api/effects.test.ts",
  },
  "the refusal of a signature does not explain how to sign": {
    file: "packages/millrace/src/http/signed-text.ts",
    find: '"www-authenticate": `Webhook-Signature realm="${sender}"`,',
    put: "",
    killedBy: "test/systems/crm/notices.test.ts",
  },
  "a webhook with an old signature is accepted": {
    file: "packages/millrace/src/http/webhook-schemes.ts",
    find: "return isRecent && signatures",
    put: "return (isRecent || true) && signatures",
    killedBy: "test/engine/http/inbound-signatures.test.ts",
  },
  "a resent webhook with different fields is refused": {
    file: "packages/millrace/src/http/routes/inbound.ts",
    find: 'if (codeOf(error) !== "idempotency_key_reused") throw error;',
    put: "if (codeOf(error)) throw error;",
    killedBy: "test/engine/http/inbound.test.ts",
  },
  "the end of a batch is sent again to a client that already has it": {
    file: "src/api/batch-reports.ts",
    find: "if (hasEnded(batch) && seen === seenAs(batch)) return",
    put: 'if (hasEnded(batch) && seen === "") return',
    killedBy: "test/systems/batches/cancel.test.ts",
  },
  "a webhook's URL is stored as typed, without normalisation": {
    file: "src/systems/webhooks/registry.ts",
    find: "const url = URL.canParse(config.url) ? calledAs(new URL(config.url)) : config.url;",
    put: "const url = config.url;",
    killedBy: "test/systems/webhooks/endpoints.test.ts",
  },
  "a trace id of zeros is continued": {
    file: "packages/millrace/src/contract/trace.ts",
    find: "-(?!0{32})([0-9a-f]{32})",
    put: "-([0-9a-f]{32})",
    killedBy: TRACE,
  },
  "a trace of a later version is not continued": {
    file: "packages/millrace/src/contract/trace.ts",
    find: "/^(?!ff)([0-9a-f]{2})-",
    put: "/^(00)-",
    killedBy: TRACE,
  },
  "a trace is not passed on to upstreams": {
    file: "packages/millrace/src/contract/trace.ts",
    find: "return trace ? { ...nextHop(trace) } : {};",
    put: "return trace ? {} : {};",
    killedBy: TRACE,
  },
  "the tracestate is dropped": {
    file: "packages/millrace/src/contract/trace.ts",
    find: "...(state && { tracestate: state })",
    put: "...(state && {})",
    killedBy: TRACE,
  },
  "an output is replaced by the result of its JSON conversion": {
    file: "packages/millrace/src/guard/output.ts",
    find: "  assertPlain(value, text);\n  if (byteLength",
    put: "  if (byteLength",
    killedBy: "test/engine/intake/odd-input.test.ts",
  },
  "an effect that is not awaited is not reported": {
    file: "packages/millrace/src/workflow/entrypoint.ts",
    find: "for (const label of replay.guarded.floating) advise",
    put: "for (const label of [] as string[]) advise",
    killedBy: "test/engine/replay/advice.test.ts",
  },
  "an ignored key is not reported": {
    file: "packages/millrace/src/guard/call.ts",
    find: 'if (definition.effect === "keyed" && !isRead)',
    put: 'if (definition.effect === "keyed" && isRead && !isRead)',
    killedBy: "test/engine/replay/advice.test.ts",
  },
  "a fetch between steps is not reported": {
    file: "packages/millrace/src/replay/advice.ts",
    find: "if (run) advise(run,",
    put: "if (run && !run) advise(run,",
    killedBy: "test/engine/replay/advice.test.ts",
  },
  "a failed attempt writes no log line": {
    file: "packages/millrace/src/observe/log/instances.ts",
    find: 'logJobLine(run.env, "warn", { ...attempt,',
    put: "void ({ ...attempt,",
    killedBy: "test/engine/observe/logged.test.ts",
  },
  "a log line does not contain the job": {
    file: "packages/millrace/src/observe/log/instances.ts",
    find: "correlation_id: short(correlation_id),",
    put: 'correlation_id: short(""),',
    killedBy: "test/engine/observe/logged.test.ts",
  },
});
