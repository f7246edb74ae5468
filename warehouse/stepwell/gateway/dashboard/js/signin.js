// Signing in by hand, for whoever comes without the address that holds the token.
import { html, useRef, useState } from "./lib/html.js";
import { isToken, signIn } from "./lib/session.js";
import { API } from "./lib/api.js";

export function SignIn() {
  const [problem, setProblem] = useState("");
  const form = useRef(null);
  const submit = async (event) => {
    event.preventDefault();
    const { token, remember } = form.current.elements;
    const value = token.value.trim();
    if (!isToken(value)) return setProblem("A token has no spaces, and letters and digits only.");
    try {
      const answer = await fetch(`${API}/version`, { headers: { authorization: `Bearer ${value}` } });
      if (answer.ok) return signIn(value, remember.checked);
      setProblem((await answer.json()).detail);
    } catch {
      setProblem("The gateway cannot be reached: does `stepwell up` still run?");
    }
  };
  return html`<main class="signin">
    <form ref=${form} onSubmit=${submit} aria-labelledby="signin-title">
      <h1 id="signin-title"><img src="/assets/icon.svg" alt="" width="28" height="28" />Stepwell</h1>
      <p>On the gateway's own machine, <code>stepwell dashboard --open</code> opens this page signed in. Or paste a token: the
        installation's is in <code>~/.stepwell/token</code> there, and ${" "}<code>stepwell token create --scope read</code> makes others.</p>
      <label>Token <input name="token" type="password" autocomplete="off" spellcheck="false" required autofocus
        aria-describedby=${problem ? "signin-problem" : undefined} aria-invalid=${problem ? "true" : undefined} /></label>
      <label class="tick"><input name="remember" type="checkbox" /> Keep it in this browser</label>
      ${problem && html`<p class="problem" id="signin-problem" role="alert">${problem}</p>`}
      <button type="submit" class="primary">Sign in</button>
    </form>
  </main>`;
}
