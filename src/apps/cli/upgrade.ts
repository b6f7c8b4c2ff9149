/** `pipectl upgrade --check`: compares the running program with the newest release. It installs nothing. */
import type { Command } from 'commander'
import { version } from '../../platform/version.ts'
import { exitCodes, usageFailure } from '../client/failure.ts'
import { define } from './define.ts'
import { io, setExitCode } from './io.ts'
import { fieldTable, print, type View } from './output.ts'
import type { UpgradePlan } from './upgrade/plan.ts'

const variable = 'PIPECTL_RELEASES_URL'

export function addUpgradeCommand(program: Command): void {
  define<{ check?: boolean; from?: string }>(program, {
    usage: 'upgrade',
    summary: 'compare this version with the newest release (--check); installs nothing',
    help: `Reads releases.json of a release, which says what an upgrade changes. There is no default address, and nothing is
read unless you run this command. Exit code 0: there is no newer release; 8: there is one; 1: the list cannot be read.`,
    examples: [
      'pipectl upgrade --check --from https://downloads.example.com/pipectl',
      'pipectl upgrade --check -o json',
    ],
    output: true,
    options: (command) => {
      command.option('--check', 'required: shows what an upgrade would change')
      command.option(
        '--from <url>',
        `folder of the newest release, or its releases.json: https, http or file (${variable})`,
      )
    },
    action: async (_, options) => {
      if (options.check !== true)
        throw usageFailure(
          '`pipectl upgrade` installs nothing',
          'add --check; docs/upgrading.md explains an upgrade',
        )
      const plan = await checkUpgrade(options.from ?? io().env[variable] ?? '')
      await print(planView(plan), options.output)
      if (plan.is_upgrade_available) setExitCode(exitCodes.upgradeAvailable)
    },
  })
}

async function checkUpgrade(from: string): Promise<UpgradePlan> {
  if (from === '')
    throw usageFailure(
      'there is no address of the releases',
      `give the folder that you install pipectl from, with --from or ${variable}`,
    )
  const { readReleases, releasesUrl } = await import('./upgrade/releases.ts')
  const url = releasesUrl(from)
  const [releases, { planUpgrade }, { knownFormats }] = await Promise.all([
    readReleases(url),
    import('./upgrade/plan.ts'),
    import('../../maintenance/format-check.ts'),
  ])
  const formats = { metadata: knownFormats.metadata_format, log: knownFormats.log_format }
  return planUpgrade({ version: version(), formats }, releases, url)
}

function planView(plan: UpgradePlan): View {
  return {
    json: JSON.stringify(plan),
    names: () => [plan.newest],
    table: () =>
      fieldTable([['running', plan.version], ...(plan.is_upgrade_available ? upgradeRows(plan) : upToDate)]),
  }
}

const upToDate = [['newest release', 'no newer release']]

function upgradeRows(plan: UpgradePlan): string[][] {
  const date = plan.date === null ? '' : `, of ${plan.date}`
  return [
    ['newest release', `${plan.newest}${date}`],
    ['release notes', plan.notes_url ?? '-'],
    ['data', dataInWords(plan)],
    ['going back', goingBackInWords(plan)],
    ...plan.before_upgrade.flatMap(({ version: of, text }) =>
      text.split('\n').map((line, index) => [index === 0 ? `before ${of}` : '', line]),
    ),
  ]
}

function dataInWords({
  opens_data: opens,
  install_first: first,
  is_data_converted: converts,
  data_formats: formats,
}: UpgradePlan): string {
  if (first !== null) return `not opened by the newest release: install ${first} first`
  if (!opens) return 'not opened by the newest release: docs/upgrading.md has another way'
  if (!converts) return 'stays as it is'
  const { running, newest } = formats
  const changes = [
    ...(newest.metadata > running.metadata
      ? [`metadata format ${running.metadata} to ${newest.metadata}`]
      : []),
    ...(newest.log > running.log ? [`log format ${running.log} to ${newest.log}`] : []),
  ]
  return `converted at the first start: ${changes.join(', ')}`
}

function goingBackInWords({ is_data_converted: converts }: UpgradePlan): string {
  if (!converts) return 'install the running version again'
  return 'the running version does not open converted data: keep a backup, or use the copy that the upgrade keeps'
}
