import * as z from "zod";
import { codeOf, MillraceError, notRetryable } from "../engine/index.ts";
import { linkFacets } from "./link-facets.ts";
import type { Answer } from "./refusal.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

interface Post {
  /** At most 300 characters as people count them. Links in it become clickable. */
  text: string;
  /** ISO 8601. Part of the record, so it must be the same on every attempt. */
  createdAt: string;
  /** The record key: the same key is the same post. Make it with `recordKey`. */
  rkey: string;
}

interface PublishedPost {
  /** `at://…`, where the post lives. */
  uri: string;
  /** Names its exact content. */
  cid: string;
}

/** Social posting. */
export interface Social {
  /** Writes the post at its record key. Repeating it changes nothing: its effect class is `natural`. */
  post(post: Post, options: CallOptions): Promise<PublishedPost>;
}

interface Session {
  did: string;
  accessJwt: string;
}

/** Short beside the two hours an access token lives, so that a cached one is rarely stale. */
const SESSION_TTL_MS = 10 * 60_000;

const COLLECTION = "app.bsky.feed.post";
const RECORD_KEY = /^(?!\.{1,2}$)[A-Za-z0-9._:~-]{1,512}$/;
const JSON_BODY = { "content-type": "application/json" };

const SessionAnswer = z.object({ did: z.string().startsWith("did:"), accessJwt: z.string().min(1) });
const RecordAnswer = z.object({ uri: z.string().startsWith("at://"), cid: z.string().min(1) });

/** One session per account and isolate: Bluesky allows 30 logins in five minutes, far fewer than posts. */
const sessions = new Map<string, Session & { expiresAt: number }>();

/** Bluesky and any other AT Protocol server, by `com.atproto.repo.putRecord`. */
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
      },
      SessionAnswer,
      options,
    );
    sessions.set(account, { ...session, expiresAt: Date.now() + SESSION_TTL_MS });
    return session;
  }

  const put = (post: Post, session: Session, options: CallOptions, meaning?: typeof staleSession) =>
    callUpstream(
      upstream,
      {
        method: "POST",
        path: "/xrpc/com.atproto.repo.putRecord",
        headers: { ...JSON_BODY, authorization: `Bearer ${session.accessJwt}`, "idempotency-key": options.key },
        body: JSON.stringify({ repo: session.did, collection: COLLECTION, rkey: post.rkey, record: recordOf(post) }),
        meaning,
      },
      RecordAnswer,
      options,
    );

  return {
    async post(post, options) {
      if (!RECORD_KEY.test(post.rkey)) throw notRetryable(`"${post.rkey}" is not a record key. Make it with recordKey().`);

      const cached = sessions.get(account);
      if (cached && cached.expiresAt > Date.now()) {
        try {
          return await put(post, cached, options, staleSession);
        } catch (error) {
          if (codeOf(error) !== "unauthorized") throw error;
          sessions.delete(account);
        }
      }
      return put(post, await openSession(options), options);
    },
  };
}

function recordOf({ text, createdAt }: Post): Record<string, unknown> {
  const facets = linkFacets(text);
  return { $type: COLLECTION, text, createdAt, ...(facets.length > 0 && { facets }) };
}

/** A session that ended early. AT Protocol servers say so with 400 and a name at least as often as with 401. */
function staleSession({ status, text }: Answer): MillraceError | undefined {
  const stale = status === 401 || (status === 400 && /"(ExpiredToken|InvalidToken)"/.test(text));
  return stale ? new MillraceError("unauthorized", "The session has ended.", { upstreamStatus: status }) : undefined;
}
