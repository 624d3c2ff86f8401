import { errors, MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { linkFacets } from "./link-facets.ts";
import { type Answer, comeBack } from "./refusal.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

interface Post {
  /** The text of the post: at most 300 grapheme clusters. Links in the text of the post become clickable. */
  text: string;
  /** The post's time (ISO 8601). The time is part of the post's record, so every attempt must use the same time. */
  createdAt: string;
  /** The record key of the post. A post with the same key replaces the earlier post. Create the key with `recordKey`. */
  rkey: string;
}

/** A published post on any platform. */
export interface PublishedPost {
  /** The post's identifier on its platform. On Bluesky the identifier is `at://…`. */
  uri: string;
  /** The public web page of the post. */
  url: string;
}

/** An account on a server with the AT Protocol. */
export interface Social {
  /**
   * Writes a post at its record key. The call is repeatable, so its effect class is `natural`. `cid` identifies the exact content of the
   * post.
   */
  post(post: Post, options: CallOptions): Promise<PublishedPost & { cid: string }>;
  /** Removes the post at a record key. A post that does not exist counts as removed. */
  remove(rkey: string, options: CallOptions): Promise<void>;
}

interface Session {
  did: string;
  accessJwt: string;
}

/**
 * Lifetime of a cached session. The lifetime is below the two hours of an access token, so that a cached session is rarely expired. The
 * lifetime is long, because servers limit logins.
 */
const SESSION_TTL_MS = 90 * 60_000;

const COLLECTION = "app.bsky.feed.post";
const RECORD_KEY = /^(?!\.{1,2}$)[A-Za-z0-9._:~-]{1,512}$/;
const JSON_BODY = { "content-type": "application/json" };

/**
 * For a suspended or deactivated account, `active` is false and `status` has a value. The server still opens a session for such an account.
 */
const SessionAnswer = z.object({
  did: z.string().startsWith("did:"),
  accessJwt: z.string().min(1),
  active: z.boolean().optional().catch(undefined),
  status: z.string().optional().catch(undefined),
});
const RecordAnswer = z.object({
  uri: z.string().startsWith("at://"),
  cid: z.string().min(1),
  validationStatus: z.string().optional().catch(undefined),
});

/** `unknown` means that the server stores the post and leaves its validation to the app. */
const VALID = new Set([undefined, "valid", "unknown"]);

/**
 * The cache has one session per account and isolate. Bluesky allows only 30 logins in five minutes and 300 logins a day, but many more
 * posts.
 */
const sessions = new Map<string, Session & { expiresAt: number }>();

/** Bluesky and any other AT Protocol server, by `com.atproto.repo.putRecord` and `deleteRecord`. */
export function blueskySocial(upstream: Upstream, handle: string): Social {
  const account = JSON.stringify([upstream.url, handle, upstream.credential.value]);

  async function openSession(options: CallOptions): Promise<Session> {
    const session = await callUpstream(
      upstream,
      {
        method: "POST",
        path: "/xrpc/com.atproto.server.createSession",
        headers: JSON_BODY,
        body: JSON.stringify({ identifier: handle, password: upstream.credential.value }),
        meaning: tooMany,
      },
      SessionAnswer,
      options,
    );
    if (session.active === false) {
      throw notRetryable(`The social account is ${session.status ?? "not active"}. Have its server activate it, then retry.`);
    }
    sessions.set(account, { ...session, expiresAt: Date.now() + SESSION_TTL_MS });
    return session;
  }

  /** Calls an AT Protocol procedure on the account's records. */
  async function call<T>(procedure: string, input: (did: string) => object, answer: z.ZodType<T>, options: CallOptions): Promise<T> {
    const within = (session: Session, stale?: typeof staleSession) =>
      callUpstream(
        upstream,
        {
          method: "POST",
          path: `/xrpc/${procedure}`,
          headers: { ...JSON_BODY, authorization: `Bearer ${session.accessJwt}`, "idempotency-key": options.key },
          body: JSON.stringify(input(session.did)),
          meaning: (answer) => stale?.(answer) ?? tooMany(answer),
        },
        answer,
        options,
      );

    const cached = sessions.get(account);
    if (cached && cached.expiresAt > Date.now()) {
      try {
        return await within(cached, staleSession);
      } catch (error) {
        if (errors.codeOf(error) !== "unauthorized") throw error;
        sessions.delete(account);
      }
    }
    return within(await openSession(options), undefined);
  }

  return {
    // The method createRecord is unsuitable, because createRecord creates another post each time. With putRecord the server does not write
    // an unchanged post again, and sends no event about the post.
    post: async (post, options) => {
      requireRecordKey(post.rkey);
      const input = (repo: string) => ({ repo, collection: COLLECTION, rkey: post.rkey, record: recordOf(post) });
      const { uri, cid, validationStatus } = await call("com.atproto.repo.putRecord", input, RecordAnswer, options);
      if (VALID.has(validationStatus)) return { uri, cid, url: webPage(uri) };
      throw notRetryable(`The social server took the post as "${validationStatus}". Look at ${uri}, then retry.`);
    },

    remove: async (rkey, options) => {
      requireRecordKey(rkey);
      await call("com.atproto.repo.deleteRecord", (repo) => ({ repo, collection: COLLECTION, rkey }), z.looseObject({}), options);
    },
  };
}

/** Returns the URL of a post on Bluesky's own site, which shows the accounts of all servers. */
function webPage(uri: string): string {
  const [did = "", , rkey = ""] = uri.slice("at://".length).split("/");
  return `https://bsky.app/profile/${did}/post/${rkey}`;
}

function requireRecordKey(rkey: string): void {
  if (!RECORD_KEY.test(rkey)) throw notRetryable(`"${rkey}" is not a record key. Make it with recordKey().`);
}

function recordOf({ text, createdAt }: Post): Record<string, unknown> {
  const facets = linkFacets(text);
  return { $type: COLLECTION, text, createdAt, ...(facets.length > 0 && { facets }) };
}

/**
 * Returns an error if the response shows that the session ended before its expected expiry. AT Protocol servers report an ended session by
 * 400 with a name at least as often as by 401.
 */
function staleSession({ status, text }: Answer): MillraceError | undefined {
  const stale = status === 401 || (status === 400 && /"(ExpiredToken|InvalidToken)"/.test(text));
  return stale ? new MillraceError("unauthorized", "The session has ended.", { upstreamStatus: status }) : undefined;
}

/**
 * An AT Protocol server's 429 response contains the end of the limit in `ratelimit-reset`, in seconds since 1970. Only newer servers also
 * send `retry-after`.
 */
function tooMany({ status, headers }: Answer): MillraceError | undefined {
  const resetAt = headers.get("ratelimit-reset") ?? "";
  if (status !== 429 || errors.retryAfterMs(headers.get("retry-after")) || !/^\d+$/.test(resetAt)) return undefined;
  const untilResetMs = Math.max(Number(resetAt) * 1000 - Date.now(), 0);
  return comeBack(untilResetMs, "The social account has reached the limit of its server.", status);
}
