/** A NATS JetStream destination. Records are published to subjects. */
import { hostOf, optionalSecret, pem } from './config-field.ts'
import {
  type ConnectionUrl,
  ConnectionUrlError,
  decodedPart,
  rejectUnknownParameters,
} from './connection-url.ts'
import { sendAtOnce, type TypeFacts } from './type-facts.ts'

const urlParameters = ['subject', 'stream']

const url: ConnectionUrl = {
  schemes: ['nats', 'tls'],
  form: 'nats://host?subject=events',
  needs: ['subject'],
  uses: (name) => urlParameters.includes(name),
  passwordKey: 'password',
  parse(url) {
    const subject = url.searchParams.get('subject')
    if (url.host === '' || url.pathname.replace(/\/$/, '') !== '')
      throw new ConnectionUrlError(
        url.host === '' ? 'it names no host' : 'it has a path',
        `write it as ${url.protocol}//host:4222?subject=orders.new`,
      )
    rejectUnknownParameters(url, this, urlParameters)
    const stream = url.searchParams.get('stream')
    return {
      url: `${url.protocol}//${url.host}`,
      ...(subject ? { subject } : {}),
      ...(url.username === '' ? {} : { username: decodedPart(url.username) }),
      ...(stream ? { stream } : {}),
    }
  },
}

export const nats = {
  kind: 'nats',
  title: 'NATS JetStream',
  summary: 'Messages of a stream, one for each record.',
  guides: [['nats.md', 'NATS JetStream']],
  examples: [
    'pipectl destinations create orders --url nats://nats.example.com:4222?subject=orders.new',
    'pipectl destinations create orders --url tls://nats.example.com:4222?subject=orders.new --secret credentials',
  ],
  fields: {
    url: {
      kind: 'text',
      label: 'Servers',
      hint: 'nats://host:4222, or tls://host:4222 for TLS. Separate the servers of one cluster with commas, at most 8. They are tried in turn, and no other server is contacted.',
      example: 'nats://nats.example.com:4222',
      needed: true,
      maxLength: 2000,
    },
    subject: {
      kind: 'text',
      label: 'Subject',
      hint: 'The subject each record is published to; a stream must keep it. Can contain {pipe_name}, {pipe_id} and {destination_id}; no *, > or spaces, and no $ or _ at the beginning.',
      example: 'events.{pipe_name}',
      needed: true,
      maxLength: 200,
    },
    stream: {
      kind: 'text',
      label: 'Stream',
      hint: 'The stream that must keep the subject: any other stream rejects the message. Without it, any stream is accepted.',
      example: 'EVENTS',
      nullable: true,
      maxLength: 255,
      pattern: '^[^\\s.*>/\\\\\\p{Cc}]+$',
    },
    username: {
      kind: 'text',
      label: 'User',
      hint: 'Authenticate with username and password, or with one of token, nkey_seed and credentials.',
      nullable: true,
      maxLength: 1000,
    },
    password: { ...optionalSecret, label: 'Password', maxLength: 4096 },
    token: { ...optionalSecret, label: 'Token', advanced: true, maxLength: 4096 },
    nkey_seed: {
      ...optionalSecret,
      label: 'NKey seed',
      hint: "The seed of a user, SU…. It signs the server's challenge and is never sent.",
      example: 'SU…',
      advanced: true,
      maxLength: 200,
    },
    credentials: {
      ...optionalSecret,
      label: 'Credentials',
      hint: 'The content of a .creds file: the JWT and the seed of a user.',
      lines: 'text',
      advanced: true,
      maxLength: 16_384,
    },
    tls_ca: {
      ...pem,
      label: 'CA certificates',
      hint: "PEM: the authorities whose certificates are trusted, instead of the system's.",
    },
    tls_verify: {
      kind: 'boolean',
      label: 'Server certificate',
      hint: 'With tls:// addresses: false accepts any certificate. The connection is then encrypted, but not protected from an attacker in between.',
      options: { true: 'is verified', false: 'is not verified' },
      advanced: true,
      default: true,
    },
    tls_cert: {
      ...pem,
      label: 'Client certificate',
      hint: 'PEM: the client certificate. Needs tls_key.',
    },
    tls_key: {
      ...optionalSecret,
      lines: 'pem',
      label: 'Client certificate key',
      hint: 'PEM: the private key of tls_cert, without a passphrase.',
      advanced: true,
      maxLength: 65_536,
    },
    headers: {
      kind: 'map',
      label: 'Headers',
      hint: 'Headers of every message. Names that begin with Nats- are reserved by the protocol.',
      example: 'Source: pipectl',
      advanced: true,
      empty: 'allowed',
      maxProperties: 20,
      maxLength: 4096,
    },
    timeout_ms: {
      kind: 'integer',
      label: 'Acknowledgement timeout (ms)',
      hint: 'The longest wait for the acknowledgement of a message.',
      advanced: true,
      minimum: 1000,
      maximum: 60_000,
      default: 5_000,
    },
  },
  hasColumns: false,
  isDatabase: false,
  hasServerKey: false,
  isTableFile: false,
  hasConcurrency: true,
  isPulled: false,
  receiver: 'destination',
  defaultFlush: sendAtOnce,
  url,
  target: ({ url, subject }) => `${url} ${subject}`,
  targetKey: ({ url, subject }) => [url, subject],
  server: ({ url }) => String(url).toLowerCase(),
  // Several servers are separated by commas.
  shownServer: ({ url }) => String(url).split(',').map(hostOf).join(', '),
  verification: ({ tls_verify }) => (tls_verify === false ? 0 : 1),
} as const satisfies TypeFacts
