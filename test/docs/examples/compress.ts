import { defineStep, defineWorkflow, type EffectCall, notRetryable } from "millrace";
import * as z from "zod";

/** Reads and writes the bucket. The same bytes under the same key are one effect. */
const compress = defineStep({
  effect: "keyed",
  async run({ input: { from, to }, env }: EffectCall<{ from: string; to: string }>) {
    const found = await env.PAYLOADS.get(from);
    if (found === null) throw notRetryable(`The bucket has no ${from}.`);
    const packed = await new Response(found.body.pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    await env.PAYLOADS.put(to, packed, { httpMetadata: { ...found.httpMetadata, contentEncoding: "gzip" } });
    return { key: to, bytes: packed.byteLength };
  },
});

/** Compresses a file of the tenant once. Another version of it has another name. */
export const compressFile = defineWorkflow({
  name: "compress-file",
  input: z.object({ name: z.string().min(1).max(200) }),
  key: ({ name }) => name,
  run: ({ input: { name }, step, envelope: { tenant_id } }) =>
    step.effect("compress", compress, { from: `files/${tenant_id}/${name}`, to: `compressed/${tenant_id}/${name}.gz` }),
});
