import type { Theme } from "vitepress";
import DefaultTheme from "vitepress/theme-without-fonts";
import { Diagram } from "./diagram.ts";

export default {
  extends: DefaultTheme,
  enhanceApp({ app, router }) {
    app.component("Diagram", Diagram);
    // The link to the Markdown version of a page leads to a file, so the application's router must not open it.
    router.onBeforeRouteChange = (to) => {
      if (!new URL(to, "http://site").pathname.endsWith(".md")) return;
      location.assign(to);
      return false;
    };
  },
} satisfies Theme;
