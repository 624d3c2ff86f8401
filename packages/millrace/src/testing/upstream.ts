import { type CodeAtWork, codeAtWork } from "../contract/crash-points.ts";

/** A request that the upstream of a test received. */
export interface UpstreamRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The value of the request's header `Idempotency-Key`. */
  readonly key: string | undefined;
  /** The workflow code that sent the request. Undefined for requests of other code, and in a bundle without crash points. */
  readonly by: CodeAtWork | undefined;
  /**
   * `done`: the request had an effect. `known`: an earlier request with the same key had the effect. `read`: the method was GET, HEAD or
   * OPTIONS. `refused`: the response was sent without an effect.
   */
  readonly was: "done" | "known" | "read" | "refused";
}

/** How the upstream of a test treats the next requests. */
export interface UpstreamTrouble {
  /**
   * `fail`: the request has no effect and gets `status`. `lose`: the request has an effect but gets no response. `delay`: the request has
   * an effect, and gets its response after `delayMs`.
   */
  readonly does: "fail" | "lose" | "delay";
  /** A string that the URL of an affected request contains. By default, requests to any URL are affected. */
  readonly url?: string;
  /** The count of requests that fail, lose their response or are delayed. Default: 1. */
  readonly times?: number;
  /** Default: 503. */
  readonly status?: number;
  /** Default: 100. */
  readonly delayMs?: number;
}

export interface UpstreamOptions {
  /**
   * Returns the response to a request. `done` contains the requests with effects so far, including the present request. By default, a
   * request with an effect gets `{ "id": … }` with the name of its step. A read request gets the response of the latest effect at its URL,
   * or 404.
   */
  readonly answer?: (request: UpstreamRequest, done: readonly UpstreamRequest[]) => Response | Promise<Response>;
}

/** The upstream of a test, which replaces `fetch` and records each request. */
export interface RecordingUpstream extends Disposable {
  /** A function `fetch` for code with such a parameter, or for a service binding of `env` that the upstream replaces. */
  readonly fetch: typeof fetch;
  readonly requests: readonly UpstreamRequest[];
  /**
   * Returns the recorded requests that had an effect, in the order in which they were received. A repeated request with a known idempotency
   * key has no effect. `url` is a string that the URL of the request contains.
   */
  effects(of?: { url?: string; key?: string; instanceId?: string }): readonly UpstreamRequest[];
  /** Makes the next requests fail, lose their response or be delayed, as `trouble` describes. */
  next(trouble: UpstreamTrouble): void;
  /** Restores the original function `fetch`. */
  restore(): void;
}

/** True for a request that only reads. */
export const isRead = ({ method }: Pick<UpstreamRequest, "method">): boolean => ["GET", "HEAD", "OPTIONS"].includes(method);

/** A response as text. In Workers, a request must not read the response object of another request. */
interface Said {
  readonly status: number;
  readonly headers: [string, string][];
  readonly body: string | null;
}

/** Replaces `fetch` with an upstream that honours idempotency keys and records each request, until `restore()` is called. */
export function recordingUpstream({ answer }: UpstreamOptions = {}): RecordingUpstream {
  const requests: UpstreamRequest[] = [];
  const said = new Map<string, Said>();
  const troubles: { trouble: UpstreamTrouble; left: number }[] = [];
  const done = () => requests.filter(({ was }) => was === "done");

  const byDefault = (request: UpstreamRequest): Response => {
    if (request.was === "done") return Response.json({ id: request.by?.step ?? `effect-${done().length}` });
    const known = said.get(`last ${request.url}`);
    return known ? spoken(known) : Response.json({ error: "There was no effect at this URL." }, { status: 404 });
  };

  const upstreamFetch = async (...[input, init]: Parameters<typeof fetch>): Promise<Response> => {
    const by = codeAtWork();
    const sent = new Request(input, init);
    const { method, url, signal } = sent;
    const key = sent.headers.get("idempotency-key") ?? undefined;
    const about = { method, url, key, headers: Object.fromEntries(sent.headers), body: await sent.text(), by: by && { ...by } };
    signal.throwIfAborted();
    const { trouble } = take(troubles, url) ?? {};
    const note = (was: UpstreamRequest["was"]) => {
      const request = { ...about, was };
      requests.push(request);
      return request;
    };
    if (trouble?.does === "fail") {
      note("refused");
      return Response.json({ error: "The test refuses it." }, { status: trouble.status ?? 503 });
    }
    const name = `${method} ${url} ${key}`;
    const known = key === undefined || isRead(about) ? undefined : said.get(name);
    const request = note(isRead(about) ? "read" : known ? "known" : "done");
    const now = known ?? (await heard(await (answer ? answer(request, done()) : byDefault(request))));
    if (request.was === "done") for (const one of [name, `last ${url}`]) said.set(one, now);
    if (trouble?.does === "delay") await scheduler.wait(trouble.delayMs ?? 100);
    if (trouble?.does === "lose") throw new TypeError("Network connection lost.");
    return spoken(now);
  };

  const before = globalThis.fetch;
  const restore = () => {
    globalThis.fetch = before;
  };
  globalThis.fetch = upstreamFetch as typeof fetch;
  return {
    fetch: upstreamFetch as typeof fetch,
    requests,
    effects: ({ url = "", key, instanceId } = {}) =>
      done().filter(
        (one) =>
          one.url.includes(url) &&
          (key === undefined || one.key === key) &&
          (instanceId === undefined || one.by?.instanceId === instanceId),
      ),
    next: (trouble) => void troubles.push({ trouble, left: trouble.times ?? 1 }),
    restore,
    [Symbol.dispose]: restore,
  };
}

function take(troubles: { trouble: UpstreamTrouble; left: number }[], url: string) {
  const found = troubles.find(({ trouble, left }) => left > 0 && url.includes(trouble.url ?? ""));
  if (found) found.left--;
  return found;
}

const heard = async (response: Response): Promise<Said> => ({
  status: response.status,
  headers: [...response.headers],
  body: NO_BODY.has(response.status) ? null : await response.text(),
});

const NO_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

const spoken = ({ status, headers, body }: Said): Response => new Response(body, { status, headers });
