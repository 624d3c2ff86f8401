/** What a visitor without any token sees of a brand. */
export interface Sight {
  /** How the article's page, the index and the feed answer. */
  page: number;
  index: number;
  feed: number;
  /** The addresses that the index and the feed lead to. */
  listed: string[];
  fed: string[];
}

/** Looks at an article's page and at its brand, whose address is the page's up to its last slash. */
export async function visit(pageUrl: string): Promise<Sight> {
  const index = pageUrl.slice(0, pageUrl.lastIndexOf("/") + 1);
  const [page, listed, fed] = await Promise.all([fetch(pageUrl), fetch(index), fetch(`${index}feed.xml`)]);
  const found = async (answer: Response, link: RegExp) => [...(await answer.text()).matchAll(link)].map(([, url = ""]) => url);
  return {
    page: page.status,
    index: listed.status,
    feed: fed.status,
    listed: await found(listed, /<h2><a href="([^"]+)"/g),
    fed: await found(fed, /<item>\s*<title>[^<]*<\/title>\s*<link>([^<]+)<\/link>/g),
  };
}
