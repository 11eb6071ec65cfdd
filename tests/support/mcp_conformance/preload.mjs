// Loaded before the conformance suite, which cannot be told to send a token or to speak an earlier version.
//   WAP_TOKEN     the token: one scenario drops the query, where the token stands, from the address
//   WAP_PROTOCOL  the version to open sessions with; the suite's client requests the latest whatever is tested
//   WAP_SPOKEN    a file, for the versions that the requests named
import { writeFileSync } from "node:fs";
import http from "node:http";

const { WAP_TOKEN, WAP_PROTOCOL, WAP_SPOKEN } = process.env;

const request = http.request;
http.request = (options, ...rest) =>
  request({ ...options, headers: { ...options.headers, Authorization: `Bearer ${WAP_TOKEN}` } }, ...rest);

const spoken = new Set();
const fetch = globalThis.fetch;
globalThis.fetch = (url, init = {}) => {
  const version = new Headers(init.headers).get("Mcp-Protocol-Version");
  if (version) spoken.add(version);
  const isOpening = WAP_PROTOCOL && typeof init.body === "string" && init.body.includes('"method":"initialize"');
  const versioned = `"protocolVersion":"${WAP_PROTOCOL}"`;
  return fetch(url, isOpening ? { ...init, body: init.body.replace(/"protocolVersion":"[^"]+"/, versioned) } : init);
};
if (WAP_SPOKEN) process.on("exit", () => writeFileSync(WAP_SPOKEN, JSON.stringify([...spoken])));
