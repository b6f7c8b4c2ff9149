/** An HTTP endpoint. */
import { hostOf, optionalSecret, originOf, type ResolvedFields } from './config-field.ts'
import { type ConnectionUrl, ConnectionUrlError } from './connection-url.ts'
import { sendAtOnce, type TypeFacts } from './type-facts.ts'

const url: ConnectionUrl = {
  schemes: ['http', 'https'],
  form: 'https://example.com/hook',
  needs: ['url'],
  uses: () => true,
  basicKey: 'auth_header',
  parse(url, text) {
    if (url.username !== '')
      throw new ConnectionUrlError(
        'it holds credentials',
        'give the Authorization header in PIPECTL_DESTINATION_AUTH_HEADER',
      )
    return { url: text }
  },
}

export const httpEndpoint = {
  kind: 'http-endpoint',
  title: 'HTTP endpoint',
  summary: 'Signed requests to a URL of yours.',
  guides: [
    ['http-endpoint.md', 'HTTP endpoints'],
    ['recipes.md', 'ClickHouse, Elasticsearch, Loki and Slack'],
    ['signatures.md', 'Verifying signatures'],
  ],
  examples: [
    'pipectl destinations create orders --url https://example.com/hook --secret auth_header',
    'pipectl destinations create orders --type http-endpoint --secret url --set body_format=slack',
  ],
  fields: {
    url: {
      kind: 'text',
      label: 'URL',
      hint: 'User name, password and query values are secret and shown as [redacted]; with secret_path or body_format slack the path too.',
      example: 'https://example.com/hook',
      secret: 'url',
      needed: true,
      maxLength: 4000,
    },
    method: { kind: 'choice', label: 'Method', options: { POST: 'POST', PUT: 'PUT' }, default: 'POST' },
    body_format: {
      kind: 'choice',
      label: 'Body',
      hint: 'Each json_object has its own webhook-id. The response to es_bulk is read item by item.',
      options: {
        json_array: 'a JSON array of records',
        ndjson: 'one record per line',
        json_object: 'one request for each record',
        es_bulk: '_bulk of Elasticsearch, OpenSearch',
        loki: 'push to Grafana Loki',
        slack: 'a message to Slack for each record',
      },
      default: 'json_array',
      // Anyone who knows the path of a Slack webhook can post to it.
      hidesUrlPath: 'slack',
    },
    auth_header: {
      ...optionalSecret,
      label: 'Authorization header',
      hint: 'The whole value of the Authorization header.',
      example: 'Bearer …',
      maxLength: 8192,
    },
    signing_secret: {
      ...optionalSecret,
      label: 'Signing secret',
      hint: 'Requests are signed as Standard Webhooks, before compression. During a rotation: two secrets, separated by a space.',
      example: 'whsec_…',
      maxLength: 400,
    },
    headers: {
      kind: 'map',
      label: 'Headers',
      hint: 'Visible to every key. Must not be host, content-*, connection or webhook-*.',
      example: 'X-Source: pipectl',
      advanced: true,
      empty: 'allowed',
      maxProperties: 20,
      maxLength: 4096,
    },
    secret_headers: {
      kind: 'map',
      label: 'Secret headers',
      hint: 'Like headers, but each value is secret. A change is merged header by header.',
      example: 'X-Api-Key: …',
      secret: 'map',
      advanced: true,
      maxProperties: 20,
      maxLength: 8192,
    },
    secret_path: {
      kind: 'boolean',
      label: 'URL path',
      hint: 'For services in which the URL alone gives access, such as Discord, Teams and Zapier. Always on with body_format slack. To turn it off, send the URL again.',
      options: { true: 'is a secret', false: 'is shown, except for Slack' },
      hidesUrlPath: true,
      advanced: true,
      default: false,
    },
    labels: {
      kind: 'map',
      label: 'Labels (Loki)',
      hint: 'For body_format loki: the labels of its stream.',
      usual: 'pipe, the name of the pipe',
      example: 'app: shop',
      advanced: true,
      maxProperties: 15,
      maxLength: 1024,
    },
    text_template: {
      kind: 'text',
      label: 'Message (Slack)',
      hint: "For body_format slack: the message, with {key} for a record's top-level value.",
      usual: 'the whole record',
      example: 'Order {id}: {total}',
      advanced: true,
      nullable: true,
      maxLength: 2000,
    },
    compression: {
      kind: 'choice',
      label: 'Compression',
      options: { none: 'none', gzip: 'gzip' },
      advanced: true,
      default: 'none',
    },
    timeout_ms: {
      kind: 'integer',
      label: 'Response timeout (ms)',
      hint: 'For one request.',
      advanced: true,
      minimum: 1000,
      maximum: 60_000,
      default: 15_000,
    },
  },
  hasColumns: false,
  isDatabase: false,
  hasServerKey: false,
  isTableFile: false,
  hasConcurrency: true,
  isPulled: false,
  receiver: 'endpoint',
  defaultFlush: sendAtOnce,
  url,
  target: ({ url }) => String(url),
  targetKey: ({ url }) => [url],
  server: ({ url }) => originOf(String(url)),
  shownServer: ({ url }) => hostOf(String(url)),
} as const satisfies TypeFacts

export type BodyFormat = ResolvedFields<typeof httpEndpoint.fields>['body_format']

/** The formats that send one request per record. */
export const oneByOneFormats: ReadonlySet<BodyFormat> = new Set(['json_object', 'slack'])
