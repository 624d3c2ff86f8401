import { createApi } from "./api/app.ts";
import { app } from "./catalog.ts";
import { brandEventsConsumer } from "./consumers/brand-events.ts";
import { gatherfeedCommandsConsumer } from "./consumers/gatherfeed-commands.ts";
import { publishCommandsConsumer } from "./consumers/publish-commands.ts";
import { socialCommandsConsumer } from "./consumers/social-commands.ts";
import { armKeeper, dispatch, entrypoint } from "./engine/index.ts";
import { generateArticle } from "./workflows/generate-article.ts";
import { postToSocial } from "./workflows/post-to-social.ts";
import { publishArticle } from "./workflows/publish-article.ts";
import { researchKeyword } from "./workflows/research-keyword.ts";

export { Keeper, Recorder } from "./engine/index.ts";
export { EmbeddedLedger } from "./providers/embedded/ledger.ts";
export { EmbeddedUpstreams } from "./providers/embedded/upstreams.ts";

export class ResearchKeyword extends entrypoint(researchKeyword) {}
export class GenerateArticle extends entrypoint(generateArticle) {}
export class PublishArticle extends entrypoint(publishArticle) {}
export class PostToSocial extends entrypoint(postToSocial) {}

const api = createApi(app);

const consume = dispatch(app, [
  gatherfeedCommandsConsumer(app),
  publishCommandsConsumer(app),
  socialCommandsConsumer(app),
  brandEventsConsumer(app),
]);

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return api.fetch(request, env, ctx);
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
  scheduled(_controller, env, ctx) {
    armKeeper(env, ctx);
  },
} satisfies ExportedHandler<Env>;
