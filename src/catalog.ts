import { routes } from "./consumers/routes.ts";
import { type Catalog, catalog } from "./engine/index.ts";
import { generateArticle } from "./workflows/generate-article.ts";
import { postToSocial } from "./workflows/post-to-social.ts";
import { publishArticle } from "./workflows/publish-article.ts";
import { researchKeyword } from "./workflows/research-keyword.ts";

/** Everything this deployment knows: its workflows and what follows from what. A new chain adds its lines here and its exports in worker.ts. */
export const app: Catalog = catalog({ workflows: [researchKeyword, generateArticle, publishArticle, postToSocial], routes });
