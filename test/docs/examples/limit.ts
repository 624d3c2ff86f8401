import { limitOf } from "millrace/limits";

/** The limit in the upstream's manual: 100 calls in any ten seconds, 20 of them at once. */
const RULES = [
  { limit: 100, periodMs: 10_000 },
  { burst: 20, refill: 10, periodMs: 1_000 },
];

export async function askUpstream(env: Cloudflare.Env, url: string): Promise<Response> {
  const limit = limitOf(env, `upstream ${new URL(url).host}`, RULES);
  await limit.take();
  const answer = await fetch(url);
  await limit.heed(answer);
  return answer;
}
