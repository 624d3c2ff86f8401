/** A link in a post's text, in the format of `app.bsky.richtext.facet`. The offsets of the link are in UTF-8 bytes. */
export interface LinkFacet {
  index: { byteStart: number; byteEnd: number };
  features: [{ $type: "app.bsky.richtext.facet#link"; uri: string }];
}

const URL_IN_TEXT = /https?:\/\/[^\s<>"]+/g;
const TRAILING_PUNCTUATION = /[.,;:!?'’”]+$/;

/** Returns a facet for every http(s) URL in a post's text. Bluesky shows a URL without a facet as plain text. */
export function linkFacets(text: string): LinkFacet[] {
  return Array.from(text.matchAll(URL_IN_TEXT), (match) => {
    const uri = withoutSentenceEnd(match[0]);
    const byteStart = byteLength(text.slice(0, match.index));
    return {
      index: { byteStart, byteEnd: byteStart + byteLength(uri) },
      features: [{ $type: "app.bsky.richtext.facet#link", uri }],
    };
  });
}

/** Removes from the end of a URL the sentence's punctuation, and a closing bracket whose opening bracket is before the URL. */
function withoutSentenceEnd(url: string): string {
  const trimmed = url.replace(TRAILING_PUNCTUATION, "");
  const closesOutside = trimmed.endsWith(")") && !trimmed.includes("(");
  return closesOutside ? trimmed.slice(0, -1).replace(TRAILING_PUNCTUATION, "") : trimmed;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).byteLength;
}
