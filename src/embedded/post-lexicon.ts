import * as z from "zod";

const MAX_GRAPHEMES = 300;
const MAX_BYTES = 3_000;

const Text = z
  .string()
  .refine((text) => byteLength(text) <= MAX_BYTES, `must not be longer than ${MAX_BYTES} bytes`)
  .refine((text) => graphemeCount(text) <= MAX_GRAPHEMES, `must not be longer than ${MAX_GRAPHEMES} graphemes`);

const Facet = z.object({
  index: z.object({ byteStart: z.int().min(0), byteEnd: z.int().min(0) }),
  features: z.array(z.looseObject({ $type: z.string() })),
});

const Record = z.looseObject({
  $type: z.literal("app.bsky.feed.post"),
  text: Text,
  createdAt: z.iso.datetime({ offset: true }),
  facets: z.array(Facet).optional(),
});

/** The request schema of the procedure `deleteRecord`. */
export const DeletePost = z.object({ repo: z.string(), collection: z.literal("app.bsky.feed.post"), rkey: z.string().min(1).max(512) });

/** The schema of `putRecord`, with the rules of the `app.bsky.feed.post` lexicon for posts and for record keys. */
export const PutPost = DeletePost.extend({
  rkey: z.string().regex(/^[2-7a-j][2-7a-z]{12}$/, "a post's record key must be a TID"),
  record: Record,
});

function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}

function graphemeCount(text: string): number {
  return Array.from(new Intl.Segmenter().segment(text)).length;
}
