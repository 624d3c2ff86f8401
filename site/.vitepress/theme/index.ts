import type { Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { Diagram } from "./diagram.ts";

export default {
  extends: DefaultTheme,
  enhanceApp({ app, router }) {
    app.component("Diagram", Diagram);
    // The Markdown version of a page is a file and not a page of the application.
    router.onBeforeRouteChange = (to) => {
      if (!new URL(to, "http://site").pathname.endsWith(".md")) return;
      location.assign(to);
      return false;
    };
  },
} satisfies Theme;
