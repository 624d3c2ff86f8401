import { useRef, useState } from "preact/hooks";
import { type Answer, get, type Item, type Result } from "../../data/api.ts";
import type { LiveEvent } from "../../data/live.ts";
import { type Data, useData } from "../../data/use-data.ts";

type Page = Answer<"/v1/correlations/:id">;
export type JobNode = Item<"/v1/correlations/:id">;

export interface ReadJob {
  summary: NonNullable<Page["summary"]>;
  nodes: JobNode[];
  collapsed: Page["collapsed"];
  elsewhere: Page["elsewhere"];
}

const PAGE = "200";

interface Job extends Data<ReadJob> {
  more: (() => void) | undefined;
}

/**
 * Loads a job page by page. After an event in the job, the first page is reloaded, because it contains the summary. The page with the
 * changed node is also reloaded, or the last page, which contains new nodes.
 */
export function useJob(id: string): Job {
  const held = useRef({ pages: [] as Page[], wanted: 1, stale: new Set<number>() });
  const [isMore, setMore] = useState(false);
  const load = async (): Promise<Result<ReadJob>> => {
    const { pages, wanted, stale } = held.current;
    for (let index = 0; index < wanted; index++) {
      if (index > 0 && pages[index] && !stale.has(index)) continue;
      const cursor = pages[index - 1]?.next_cursor;
      if (index > 0 && !cursor) break;
      const page = await get("/v1/correlations/:id", { param: { id }, query: { limit: PAGE, ...(cursor && { cursor }) } });
      if (!page.ok) return page;
      pages[index] = page.data;
      stale.delete(index);
    }
    setMore(Boolean(pages.at(-1)?.next_cursor));
    return { ok: true, data: together(pages) };
  };
  const isAbout = ({ kind, data }: LiveEvent) => {
    const { pages, stale } = held.current;
    const name = kind === "action" || kind === "doubt" ? data.instance_id : data.id;
    const at = pages.findIndex(({ items }) => items.some(({ node }) => node === name));
    const isOurs = at >= 0 || data.correlation_id === id || kind === "skipped";
    if (isOurs) stale.add(at >= 0 ? at : pages.length - 1);
    return isOurs;
  };
  const read = useData(load, [id], isAbout);
  const more = () => {
    held.current.wanted = held.current.pages.length + 1;
    read.again();
  };
  return { ...read, more: isMore ? more : undefined };
}

function together(pages: readonly Page[]): ReadJob {
  const [first] = pages as [Page];
  const nodes = new Map(pages.flatMap(({ items }) => items.map((node) => [node.node, node] as const)));
  return {
    summary: first.summary ?? { open: false, first_at: null, last_at: null, instances: [], dead_letters: [], more: false },
    nodes: [...nodes.values()],
    collapsed: pages.flatMap(({ collapsed }) => collapsed),
    elsewhere: first.elsewhere,
  };
}
