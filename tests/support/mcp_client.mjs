// The official TypeScript client, driven through everything; prints what it saw as JSON. See test_npm_clients.py.
//   node mcp_client.mjs FOLDER-OF-NODE-MODULES WAY CALLS
// WAY is a file: { url, token } over HTTP, or { command, args, env } over stdio.
// CALLS is a file: the table of mcp_calls.py in JSON.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const [modules, given, calls] = process.argv.slice(2);
const way = JSON.parse(readFileSync(given, "utf8"));
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${path}`).href);
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { ElicitRequestSchema, ResourceUpdatedNotificationSchema, CallToolResultSchema } = await load("types.js");

const said = {};

const openHttp = (options = {}) =>
  new StreamableHTTPClientTransport(new URL(way.url), { ...options, requestInit: { headers: { Authorization: `Bearer ${way.token}` } } });
const openTransport = () => (way.url ? openHttp() : new StdioClientTransport({ ...way, stderr: "inherit" }));

async function connect(options = {}) {
  const capabilities = options.elicit ? { elicitation: {} } : {};
  const client = new Client({ name: "typescript", version: "1" }, { capabilities });
  if (options.elicit) client.setRequestHandler(ElicitRequestSchema, options.elicit);
  await client.connect(openTransport());
  return client;
}

const call = async (client, name, args, options) =>
  (await client.callTool({ name, arguments: args }, CallToolResultSchema, options)).structuredContent;

async function refused(promise) {
  try {
    const error = (await promise)?.error;
    return error ? [error.code, error.data.code] : null;
  } catch (error) {
    return [error.code, error.data?.code ?? null];
  }
}

const client = await connect();
said.server = client.getServerVersion().name;
said.tools = (await client.listTools()).tools.map((tool) => tool.name);

// Every tool with every argument, every error code. The client checks each answer against the tool's output schema.
const outcome = async (name, args) => {
  try {
    const result = await client.callTool({ name, arguments: args });
    const told = JSON.parse(result.content[0].text);
    return result.isError ? { code: told.error.code, data: told.error.data } : { answer: told };
  } catch (error) {
    return { code: error.code, data: error.data ?? null };
  }
};
said.calls = [];
let lastRun = "";
for (const [name, args] of JSON.parse(readFileSync(calls, "utf8"))) {
  const sent = Object.fromEntries(Object.entries(args).map(([key, value]) => [key, value === "$runId" ? lastRun : value]));
  said.calls.push(await outcome(name, sent));
  lastRun = said.calls.at(-1).answer?.runId ?? lastRun;
}
said.info = (await call(client, "getWorkspaceInfo", {})).root;

// Resources, subscriptions, prompts.
said.template = (await client.listResourceTemplates()).resourceTemplates[0].uriTemplate;
const uri = said.template.replace("{+path}", "watched.txt");
const updated = new Promise((resolve) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, (note) => resolve(note.params.uri)));
await client.subscribeResource({ uri });
await call(client, "writeFile", { path: "watched.txt", contents: "seen\n" });
said.updated = (await updated) === uri;
said.resource = (await client.readResource({ uri })).contents[0].text;
said.prompts = (await client.listPrompts()).prompts.length;

// Progress, then cancellation.
const progress = [];
const begun = new Promise((resolve) => (said.onProgress = resolve));
const abort = new AbortController();
const waiting = refused(
  client.callTool({ name: "runCommand", arguments: { command: "sh", args: ["-c", "echo $$ >pid; echo begun; sleep 1000"] } }, CallToolResultSchema, {
    signal: abort.signal,
    onprogress: (note) => {
      progress.push(note.message ?? "");
      if (note.message?.includes("begun")) said.onProgress();
    },
  }),
);
await begun;
delete said.onProgress;
const command = `/proc/${readFileSync(`${said.info}/pid`, "utf8").trim()}`;
const wasThere = existsSync(command);
abort.abort("enough");
said.cancelled = [wasThere, (await waiting) !== null];
while (existsSync(command)) await sleep(10); // the test ends this program if the command stays
said.progress = progress.some((text) => text.includes("begun"));

// Two sessions at once, each waiting for the other.
const other = await connect();
const meet = (mine, theirs) => ({ command: "sh", args: ["-c", `touch ${mine}; until [ -e ${theirs} ]; do sleep 0.01; done`] });
const both = await Promise.all([call(client, "runCommand", meet("one", "two")), call(other, "runCommand", meet("two", "one"))]);
said.both = both.map((result) => result.exitCode);

// A dropped connection, resumed with the last event's id. Over stdio there is none.
if (way.url) {
  const script = "touch dropped; until [ -e resume ]; do sleep 0.01; done; echo resumed";
  let last = null;
  const dropped = await connect();
  const lost = dropped.callTool({ name: "runCommand", arguments: { command: "sh", args: ["-c", script] } }, CallToolResultSchema, {
    onresumptiontoken: (id) => (last = id),
  });
  lost.catch(() => {});
  while (last === null) await sleep(10);
  const { sessionId, protocolVersion } = dropped.transport;
  await dropped.transport.close(); // drops the stream and keeps the session
  const again = new Client({ name: "typescript", version: "1" }, { capabilities: {} });
  const resumed = openHttp({ sessionId });
  await again.connect(resumed);
  resumed.setProtocolVersion?.(protocolVersion);
  const answered = again.request(
    { method: "tools/call", params: { name: "runCommand", arguments: { command: "sh", args: ["-c", script] } } },
    CallToolResultSchema,
    { resumptionToken: last },
  );
  await call(client, "runCommand", { command: "touch", args: ["resume"] });
  said.resumed = (await answered).structuredContent.stdout;
  await resumed.terminateSession();
  await again.close();
}

// The user is asked, agrees and refuses.
writeFileSync(`${said.info}/.cws-policy.json`, '{"confirmationRequired": ["runCommand"]}');
for (const agrees of [true, false]) {
  const questions = [];
  const asked = await connect({
    elicit: async (request) => {
      questions.push(request.params.message);
      return agrees ? { action: "accept", content: { confirm: true } } : { action: "decline" };
    },
  });
  const outcome = agrees ? (await call(asked, "runCommand", { command: "echo", args: ["hi"] })).stdout : await refused(call(asked, "runCommand", { command: "echo", args: ["hi"] }));
  said[agrees ? "agreed" : "declined"] = [outcome, questions.length === 1 && questions[0].includes("echo hi")];
  await asked.close();
}

for (const one of [client, other]) {
  await one.transport.terminateSession?.();
  await one.close();
}
process.stdout.write(JSON.stringify(said));
process.exit(0);
