import { on, type Route, send, start } from "../engine/index.ts";
import { ContentGenerated, ContentPublish, ContentPublished } from "../messages/content.ts";
import { ResearchCompleted } from "../messages/research.ts";
import { SocialCreate, SocialPosted } from "../messages/social.ts";
import { generateArticle } from "../workflows/generate-article.ts";

/** What follows from what. */
export const routes: readonly Route[] = [
  on(ResearchCompleted, start(generateArticle)),
  on(
    ContentGenerated,
    send(ContentPublish, ({ content_id, brand }) => ({ content_id, brand })),
    send(SocialCreate, ({ content_id, brand }) => ({ content_id, brand })),
  ),
  on(ContentPublished),
  on(SocialPosted),
];
