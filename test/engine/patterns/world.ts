import { onTestFinished, vi } from "vitest";
import { probeEnv } from "../harness.ts";

/** A request to a simulated host. */
interface Asked<Body> {
  readonly body: Body;
  readonly at: number;
}

/** The original `fetch`, because a spy may be replaced by another spy. */
const real = globalThis.fetch;

/**
 * Simulates the host, or hosts, of an example during a test. Forwards each request to the test's upstream process, which counts it
 * under `subjectOf(body)`. Answers 500, without an effect, if `refuses(body)` is true. Returns the requests.
 */
export function world<Body>(
  host: string | readonly string[],
  subjectOf: (body: Body) => string,
  refuses: (body: Body) => boolean = () => false,
) {
  const asked: Asked<Body>[] = [];
  const spy = vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input as Request, init);
    if (![host].flat().includes(new URL(request.url).host)) return real(input as Request, init);
    const body = await request.json<Body>();
    asked.push({ body, at: Date.now() });
    if (refuses(body)) return new Response(null, { status: 500 });
    const key = request.headers.get("idempotency-key");
    const url = `${probeEnv.UPSTREAM_URL}/${key ? "keyed" : "plain"}/${encodeURIComponent(subjectOf(body))}`;
    return real(url, { method: "POST", headers: key ? { "idempotency-key": key } : {}, body: "{}" });
  });
  onTestFinished(() => spy.mockRestore());
  return asked;
}
