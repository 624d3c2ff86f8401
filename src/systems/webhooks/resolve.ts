import * as z from "zod";
import { isPublic } from "./address.ts";

/** The DNS result of a host name: public addresses only, refused with a reason, or currently unknown with a reason. */
export type Resolved = { verdict: "public" } | { verdict: "refused"; reason: string } | { verdict: "unknown"; reason: string };

const ANSWER_MS = 5000;
const MAX_CHARACTERS = 100_000;
const A = 1;
const AAAA = 28;
const NO_SUCH_NAME = 3;

const answerSchema = z.object({
  Status: z.int(),
  Answer: z.array(z.object({ type: z.int(), data: z.string() })).default([]),
});

/** Queries a DNS-over-HTTPS service (JSON format) for a name's IPv4 and IPv6 addresses. Every address must be public. */
export async function resolve(resolver: string, name: string): Promise<Resolved> {
  try {
    const answers = await Promise.all([ask(resolver, name, "A"), ask(resolver, name, "AAAA")]);
    if (answers.some(({ Status }) => Status === NO_SUCH_NAME)) return { verdict: "refused", reason: "names a host that does not exist" };
    const failed = answers.find(({ Status }) => Status !== 0);
    if (failed) return { verdict: "unknown", reason: `the resolver answered with DNS status ${failed.Status}` };
    const addresses = answers.flatMap(({ Answer }) => Answer.filter(({ type }) => type === A || type === AAAA).map(({ data }) => data));
    if (addresses.length === 0) return { verdict: "refused", reason: "names a host without an address" };
    if (!addresses.every(isPublic)) return { verdict: "refused", reason: "names a host with an address that is not public" };
    return { verdict: "public" };
  } catch {
    return { verdict: "unknown", reason: "the resolver gave no usable answer" };
  }
}

async function ask(resolver: string, name: string, type: "A" | "AAAA"): Promise<z.infer<typeof answerSchema>> {
  const url = new URL(resolver);
  url.searchParams.set("name", name);
  url.searchParams.set("type", type);
  const answer = await fetch(url, {
    headers: { accept: "application/dns-json" },
    redirect: "manual",
    signal: AbortSignal.timeout(ANSWER_MS),
  });
  const text = await answer.text();
  if (!answer.ok || text.length > MAX_CHARACTERS) throw new Error(`The resolver answered ${answer.status}.`);
  return answerSchema.parse(JSON.parse(text));
}
