import { MillraceError, notRetryable, upstreamRefused } from "millrace";
import * as z from "zod";
import { jsonOf } from "./json.ts";
import type { Page, Pages, PublishedPage } from "./pages.ts";
import type { Answer } from "./refusal.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** The fields of a WordPress post that the connector reads. The status of a post in the trash is missing in WordPress' own schema. */
const Post = z.object({
  id: z.int(),
  slug: z.string(),
  status: z.string(),
  link: z.url(),
  date: z.string().nullish(),
  modified_gmt: z.string().nullable(),
});
type Post = z.infer<typeof Post>;

const FIELDS = Object.keys(Post.shape).join();
/** WordPress' response to a removal: the post in the trash, or a confirmation that the post was deleted permanently. */
const Deleted = z.object({ deleted: z.boolean().optional(), status: z.string().optional() });

/** WordPress shortens longer slugs, and appends its own suffixes to slugs. */
const SLUG = /^(?=.{1,180}$)[a-z0-9]+(?:-[a-z0-9]+)*$/;

/**
 * WordPress, by its REST API and an application password (`upstream.credential`) of a user who may publish.
 *
 * WordPress has no idempotency key, and creating a post with an existing slug makes a second post, `slug-2`. Therefore every write searches
 * first. The app recognizes its post by the slug, which ends with digits of the article's id. (REST stores a `meta` field only if a plugin
 * registers it.)
 */
export function wordpressPages(upstream: Upstream, store: string, user: string): Pages {
  const credential = new TextEncoder().encode(`${user}:${upstream.credential.value}`).toBase64();
  const headers = { authorization: `Basic ${credential}`, "content-type": "application/json" };
  const meaning = meaningOf(upstream);

  const request = <T>(
    method: "GET" | "POST" | "DELETE",
    route: string,
    query: Record<string, string>,
    schema: z.ZodType<T>,
    options: CallOptions,
    body?: object,
  ) =>
    callUpstream(
      upstream,
      // This form of a REST route works with all permalink settings. The route `/wp-json` does not exist with plain permalinks.
      {
        method,
        path: `/?${new URLSearchParams({ rest_route: `/wp/v2/posts${route}`, ...query })}`,
        headers,
        body: body && JSON.stringify(body),
        meaning,
      },
      schema,
      options,
    );

  /** Finds the app's post, even if an editor has changed the post to a draft or moved the post to the trash. */
  async function look({ slug }: Pick<Page, "slug">, options: CallOptions): Promise<Post | undefined> {
    if (!SLUG.test(slug))
      throw notRetryable(`"${slug}" is not a slug WordPress keeps as it is. Use up to 180 lower case letters, digits and dashes.`);
    const names = namesOf(slug);
    // `any` selects every status but the trash.
    const query = { slug: names.join(), status: "any,trash", context: "edit", _fields: FIELDS };
    const found = await request("GET", "", query, z.array(Post), options);
    const rank = (post: Post) => (post.status === "publish" ? 0 : names.length) + names.indexOf(post.slug);
    return found.filter(({ slug }) => names.includes(slug)).sort((one, other) => rank(one) - rank(other))[0];
  }

  async function remove(id: number, query: Record<string, string>, options: CallOptions): Promise<void> {
    const { deleted, status } = await request("DELETE", `/${id}`, query, Deleted, options);
    if (deleted || status === "trash") return;
    const now = status === undefined ? "" : `, and the post is "${status}"`;
    throw new MillraceError("unavailable", `WordPress responded to the removal of the post ${id}, but did not remove it${now}.`);
  }

  return {
    kind: "wordpress",
    store,
    repeatable: false,

    async put(page, options) {
      const standing = await look(page, options);
      // WordPress' own schema says that `raw` is the stored text.
      const body = {
        slug: page.slug,
        status: "publish",
        title: { raw: asHtml(page.title) },
        content: { raw: withoutShortcodes(page.content) },
      };
      const write = (route: string) => request("POST", route, { _fields: FIELDS }, Post, options, body);
      if (standing) return published(await write(`/${standing.id}`));

      const made = await write("");
      if (made.slug === page.slug) return published(made);
      // Another post got the slug after the search. If the other post is from another attempt, the other post remains and the new post is
      // deleted. If a picture has the slug, the new post remains.
      const first = await look(page, options);
      if (first === undefined || first.id === made.id) return published(made);
      await remove(made.id, { force: "true" }, options);
      return published(first);
    },

    async find(page, options) {
      const standing = await look(page, options);
      return standing?.status === "publish" ? published(standing) : undefined;
    },

    /** Moves the post to the trash, where a person can find the post. The next `put` restores the post with its URL and comments. */
    async remove(page, options) {
      const standing = await look(page, options);
      if (standing === undefined || standing.status === "trash") return;
      try {
        await remove(standing.id, {}, options);
      } catch (error) {
        const status = error instanceof MillraceError ? error.detail.upstreamStatus : undefined;
        // The status 501 means that the trash of this site is disabled.
        if (status === 501) await remove(standing.id, { force: "true" }, options);
        else if (status !== 410) throw error;
      }
    },
  };
}

/**
 * Returns the possible slugs of the app's post, the best first. The slugs are the page's slug, the slug that the post gets beside a picture
 * with the page's slug, and the forms of both in the trash.
 */
function namesOf(slug: string): string[] {
  return [slug, `${slug}-2`, `${slug}__trashed`, `${slug}-2__trashed`];
}

/**
 * Returns the page of a published post. WordPress also returns 200 for a post with a future date (`future`), for a post that a plugin sends
 * to review (`pending`), and for a hidden post. Errors: `not_retryable` in these cases, because the post is not public.
 */
function published({ id, status, link, date, modified_gmt }: Post): PublishedPage {
  if (status !== "publish") {
    const dated = status === "future" && date ? ` for ${date}` : "";
    throw notRetryable(
      `WordPress has made the post ${id} "${status}"${dated}, not "publish": it is not public. Publish it in WordPress, or give it a date that has passed, then retry.`,
    );
  }
  return { url: link, etag: `"${id}-${modified_gmt}"` };
}

/**
 * Escapes a title, because WordPress treats a title as HTML. For users with the right to write scripts, WordPress keeps even scripts in a
 * title.
 */
function asHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/**
 * Escapes square brackets, because WordPress runs the shortcodes in square brackets that plugins define. The author of a text must not be
 * able to run shortcodes.
 */
function withoutShortcodes(html: string): string {
  return html.replaceAll("[", "&#91;");
}

const ErrorBody = z.object({ code: z.string() });

const meaningOf =
  ({ credential: { variable } }: Upstream) =>
  ({ status, text }: Answer): MillraceError | undefined => {
    // WordPress treats a request with a wrong password as anonymous, and an anonymous request for drafts returns 400.
    if (status === 400 && text.includes("rest_forbidden_status")) {
      const names = variable === "PAGES_TOKEN" ? "PAGES_USER and PAGES_TOKEN, an application password" : `user and token of ${variable}`;
      return notRetryable(
        `WordPress does not accept the login. Check ${names}; and that the web server hands the Authorization header to PHP.`,
        status,
      );
    }
    // A post may have been deleted after the search, so the next attempt searches again.
    if (status === 404 && codeIn(text) === "rest_post_invalid_id") return upstreamRefused("The post was deleted meanwhile.", status);
    return undefined;
  };

function codeIn(text: string): string | undefined {
  return ErrorBody.safeParse(jsonOf(text)).data?.code;
}
