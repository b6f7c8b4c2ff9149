/**
 * `pipectl alerts …`: the alert settings of the workspace. Address and secret never come from the command line,
 * because both are secret.
 */
import { type Command, Option } from 'commander'
import { alertEventNames, alertEvents, alertFormats } from '../../contract/alert-words.ts'
import type { Alerts, AlertsPut, AlertsShown } from '../../contract/alerts.ts'
import { hasUrlSecrets } from '../../contract/secret-url.ts'
import { ago } from '../../platform/quantities.ts'
import { ifUnchanged } from '../client/changed-meanwhile.ts'
import { commandFailure, usageFailure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { clientCommand, define, group } from './define.ts'
import { readFileOrStdin } from './input-file.ts'
import { io } from './io.ts'
import { oneView, print, type View } from './output.ts'
import { askSecret, canAsk, confirm, say } from './terminal.ts'

interface SetOptions {
  url?: string
  urlFile?: string
  askSecret?: boolean
  secretFile?: string
  unsigned?: boolean
  format?: Alerts['format']
  events?: string
}

const urlVariable = 'PIPECTL_ALERTS_URL'
const secretVariable = 'PIPECTL_ALERTS_SECRET'

export function addAlertsCommands(program: Command): void {
  const alerts = group(
    program,
    'alerts',
    'where alerts of the workspace go, for which events, and whether they arrive',
  )
  clientCommand(alerts, {
    usage: 'get',
    summary: 'show where alerts go, how many are pending and the last failure',
    examples: ['pipectl alerts get'],
    action: async (client, _, options) => {
      const { body, text } = await client.call('getAlerts')
      await print(viewOf(body, text), options.output)
    },
  })
  addSet(alerts)
  clientCommand(alerts, {
    usage: 'clear',
    summary: 'stop sending alerts, and discard pending ones',
    examples: ['pipectl alerts clear --yes'],
    output: false,
    destructive: true,
    action: async (client, _, options) => {
      const { body: stored, etag } = await client.call('getAlerts')
      await confirm('Stop sending alerts, and remove their settings?', options.yes)
      await ifUnchanged('the alerts', stored, () => client.call('deleteAlerts', { ifMatch: etag }))
      say('No alerts are sent now.')
    },
  })
  clientCommand(alerts, {
    usage: 'test',
    summary: 'send a test alert and show the response; exit code 1 if it was not accepted',
    examples: ['pipectl alerts test'],
    action: async (client, _, options) => {
      const { body, text } = await client.call('testAlerts')
      const rows = [
        ['arrived', body.ok ? 'yes' : 'no'],
        ['message', body.message],
      ]
      await print(oneView(text, body.ok ? 'ok' : 'failed', rows), options.output)
      if (!body.ok)
        throw commandFailure(
          'the test alert was not accepted',
          '`pipectl alerts set` changes where alerts go',
        )
    },
  })
}

function addSet(alerts: Command): void {
  define<SetOptions>(alerts, {
    usage: 'set',
    summary: 'set where alerts go; all other settings stay as they are',
    help: `An address that contains a secret (a token in its query, the path of a Slack webhook) is read from --url-file, from
${urlVariable} or from a prompt. The secret that signs alerts (whsec_…) is read from ${secretVariable},
--secret-file or --ask-secret.

Events:
${alertEventNames.map((event) => `  ${event.padEnd(29)}${alertEvents[event]}`).join('\n')}`,
    examples: [
      'pipectl alerts set --url https://hooks.example.com/pipectl --ask-secret',
      'pipectl alerts set --url-file slack-webhook --format slack --events lane.failing,lane.stuck,lane.recovered',
      'pipectl alerts set --events all',
    ],
    output: true,
    daemon: true,
    options: (command) => {
      command.option('--url <url>', 'an address without a secret')
      command.option('--url-file <file>', 'file with the address; - for stdin')
      command.addOption(
        new Option(
          '--format <format>',
          'standard: JSON, see docs/alerts.md; slack: an incoming webhook',
        ).choices(alertFormats),
      )
      command.option('--events <names>', 'events, separated by commas, or `all`')
      command.option('--ask-secret', 'read the signing secret from a prompt')
      command.option('--secret-file <file>', 'file with the secret; - for stdin')
      command.option('--unsigned', 'do not sign alerts')
    },
    action: async (_, options) => {
      const change = await changeFrom(options)
      const client = await connect(options)
      const { body: stored, etag } = await client.call('getAlerts')
      const url = change.url ?? stored.alerts?.url
      if (url === undefined)
        throw usageFailure('alerts have no address yet', `give --url, --url-file or ${urlVariable}`)
      const { body, text } = await ifUnchanged('the alerts', stored, () =>
        client.call('putAlerts', { body: { ...stored.alerts, ...change, url }, ifMatch: etag }),
      )
      say('Alerts are set. `pipectl alerts test` sends one.')
      await print(viewOf(body, text), options.output)
    },
  })
}

function viewOf({ alerts, status }: AlertsShown, text: string): View {
  if (alerts === null || status === null) {
    const empty = 'no alerts are set up: `pipectl alerts set`'
    return { json: text, names: () => [], table: () => ({ columns: ['FIELD', 'VALUE'], rows: [], empty }) }
  }
  const { last_failure: failure } = status
  const now = Date.now()
  return oneView(text, alerts.url, [
    ['url', alerts.url],
    ['signed', alerts.secret === null ? 'no' : 'yes'],
    ['format', alerts.format],
    ['events', alerts.events.length === alertEventNames.length ? 'all' : alerts.events.join('\n')],
    ['pending', String(status.pending_alerts)],
    ['last sent', ago(status.last_sent_ts, now)],
    ['last failure', failure === null ? 'never' : `${ago(failure.failure_ts, now)}: ${failure.message}`],
  ])
}

async function changeFrom(options: SetOptions): Promise<Partial<AlertsPut>> {
  const url = await givenUrl(options)
  const secret = await givenSecret(options)
  const change = {
    ...(url === undefined ? {} : { url }),
    ...(secret === undefined ? {} : { secret }),
    ...(options.format === undefined ? {} : { format: options.format }),
    // Undefined fields are omitted from the body, which means all events.
    ...(options.events === undefined ? {} : { events: eventsFrom(options.events) }),
  }
  if (Object.keys(change).length > 0) return change as Partial<AlertsPut>
  throw usageFailure('no setting was given', '--help lists them')
}

async function givenUrl({ url, urlFile, format }: SetOptions): Promise<string | undefined> {
  if (url !== undefined && (format === 'slack' || hasUrlSecrets(url)))
    throw usageFailure(
      format === 'slack'
        ? '--url: the path of a Slack address is a secret, which everyone on this machine can see'
        : '--url: it holds a user, a password or a query, which everyone on this machine can see',
      `put it into a file and give --url-file, or into ${urlVariable}`,
    )
  const given = url ?? fromFile('--url-file', urlFile) ?? io().env[urlVariable]
  if (given !== undefined || format !== 'slack' || !canAsk()) return given
  return (await askSecret('Address of the Slack webhook (empty: keep the stored one): ')) || undefined
}

async function givenSecret(options: SetOptions): Promise<string | null | undefined> {
  if (options.unsigned === true) return null
  const given = fromFile('--secret-file', options.secretFile) ?? io().env[secretVariable]
  if (given !== undefined || options.askSecret !== true) return given
  if (canAsk()) return await askSecret('Secret (whsec_…): ')
  throw usageFailure(
    '--ask-secret needs a terminal, and this is not one',
    `put it into the environment variable ${secretVariable}`,
  )
}

function fromFile(flag: string, name: string | undefined): string | undefined {
  if (name === undefined) return undefined
  return readFileOrStdin(name, { name: `${flag} ${name}`, hint: 'name a file, or - for stdin' }).trim()
}

function eventsFrom(text: string): AlertsPut['events'] {
  if (text === 'all') return undefined
  const names = text.split(',').map((name) => name.trim())
  const unknown = names.find((name) => !alertEventNames.some((event) => event === name))
  if (unknown === undefined) return alertEventNames.filter((event) => names.includes(event))
  throw usageFailure(
    `--events: ${JSON.stringify(unknown)} is not an event`,
    `use all, or some of ${alertEventNames.join(', ')}`,
  )
}
