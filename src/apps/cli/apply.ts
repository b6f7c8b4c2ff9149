/** `pipectl apply`, `diff`, `export`: a workspace as a file. */
import type { Command } from 'commander'
import { counted } from '../../platform/quantities.ts'
import type { Client, PipeDetail } from '../client/client.ts'
import { exitCodes, Failure, usageFailure } from '../client/failure.ts'
import { printable } from '../client/printable.ts'
import { allPipeDetails } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { clientCommand, define } from './define.ts'
import {
  addTransformCheckOption,
  savingWith,
  type TransformCheckOptions,
} from './destinations/transform-options.ts'
import { io, setExitCode } from './io.ts'
import type { DeclaredPipe } from './manifest/document.ts'
import type { Step } from './manifest/plan.ts'
import { coloursOn, confirm, paint, say } from './terminal.ts'

interface ApplyOptions extends TransformCheckOptions {
  file: string
  dryRun?: boolean
  prune?: boolean
  updateSecrets?: boolean
}

const fileHelp = `The file has the fields of the API under \`pipes:\`; \`pipectl export\` prints one. A destination is identified by its
destination_name. With the same name, all differences are applied, and the lane keeps its position; with another name and the same
target, it is renamed. What is not in the file stays as it is; --prune deletes pipes, destinations and origins that are not in it. Secrets
are references such as \${SHOP_DB_PASSWORD}. Stored secrets cannot be read back: they count as unchanged without --update-secrets.`

export function addApplyCommands(program: Command): void {
  const options = (command: Command) =>
    command
      .requiredOption('-f, --file <file>', 'YAML file that describes the workspace; - for stdin')
      .option('--prune', 'delete pipes, destinations and origins that are not in the file')
      .option('--update-secrets', 'send the secrets of the file again')
  define<ApplyOptions>(program, {
    usage: 'apply',
    summary: 'change a workspace to match a file; prints what will change before it changes anything',
    help: fileHelp,
    examples: ['pipectl apply -f pipectl.yaml --dry-run', 'pipectl apply -f pipectl.yaml --prune --yes'],
    daemon: true,
    destructive: true,
    options: (command) =>
      addTransformCheckOption(
        options(command).option('--dry-run', 'print what would change, change nothing'),
      ),
    action: async (_, given) => {
      const plan = await makePlan(given)
      printPlan(plan)
      if (plan.steps.length === 0) return
      if (given.dryRun === true) {
        if (given.transformCheck === false) return
        const { tryTransforms } = await import('./manifest/try-transforms.ts')
        return await tryTransforms(plan.client, plan.steps, plan.existing)
      }
      if (plan.lost > 0)
        await confirm(`Delete ${counted(plan.lost, 'resource')} and the undelivered messages?`, given.yes)
      const { applySteps } = await import('./manifest/apply.ts')
      const onDone = (step: Step) => say(`done: ${step.summary}`)
      await applySteps(plan.client, plan, onDone, savingWith(given))
      say(`Applied ${counted(plan.steps.length, 'change')}.`)
    },
  })
  define<ApplyOptions>(program, {
    usage: 'diff',
    summary: 'print what apply would change; exit code 0: nothing, 1: something, more than 1: an error',
    help: fileHelp,
    examples: ['pipectl diff -f pipectl.yaml'],
    daemon: true,
    options,
    action: async (_, given) => {
      const plan = await makePlan(given).catch((error: unknown) => {
        // Exit code 1 already means "there are differences".
        if (!(error instanceof Failure) || error.exitCode !== exitCodes.failed) throw error
        throw usageFailure(error.message, error.hint, error)
      })
      printPlan(plan)
      if (plan.steps.length > 0) setExitCode(1)
    },
  })
  clientCommand(program, {
    usage: 'export',
    summary: 'print the workspace as a file for apply; secrets become references to variables',
    examples: ['pipectl export > pipectl.yaml'],
    output: false,
    action: async (client) => {
      const details = await allPipeDetails(client, (await client.call('listPipes')).body.pipes)
      const { exportYaml } = await import('./manifest/export.ts')
      const { yaml, variables } = exportYaml(details, io().stdout.isTTY === true)
      io().stdout.write(yaml)
      if (variables.length > 0) say(`Before applying it elsewhere set: ${variables.join(', ')}`)
    },
  })
}

interface Plan {
  client: Client
  steps: Step[]
  existing: PipeDetail[]
  /** Resources that are not in the file and are kept. */
  kept: string[]
  /** The number of steps that delete something. */
  lost: number
  /** Existing destinations that the file declares without a name. */
  unnamed: string[]
}

async function makePlan(options: ApplyOptions & Parameters<typeof connect>[0]): Promise<Plan> {
  const [{ readYamlFile }, { declaredPipes }, { planSteps, extras, foundUnnamed, destroys }] =
    await Promise.all([
      import('./manifest/yaml-file.ts'),
      import('./manifest/document.ts'),
      import('./manifest/plan.ts'),
    ])
  const declared: DeclaredPipe[] = declaredPipes(readYamlFile(options.file))
  const client = await connect(options)
  const existing = await allPipeDetails(client, (await client.call('listPipes')).body.pipes)
  const prune = options.prune === true
  const steps = planSteps(declared, existing, { prune, updateSecrets: options.updateSecrets === true })
  const kept = prune ? [] : extras(declared, existing)
  const lost = steps.filter(destroys).length
  return { client, steps, existing, kept, lost, unnamed: foundUnnamed(declared, existing) }
}

/** The plan is data, so it is written to stdout. */
function printPlan({ steps, kept, unnamed }: Plan): void {
  const on = coloursOn(io().stdout)
  const colours = { '+': 'green', '~': 'yellow', '-': 'red' } as const
  for (const { summary } of steps) {
    const sign = summary[0]
    const colour = sign === '+' || sign === '~' || sign === '-' ? colours[sign] : null
    const text = io().stdout.isTTY === true ? printable(summary) : summary
    io().stdout.write(`${colour === null ? text : paint(colour, text, on)}\n`)
  }
  if (steps.length === 0) say('Nothing to change: the workspace matches the file.')
  if (unnamed.length > 0) {
    say(
      `Without destination_name in the file: ${unnamed.join(', ')}. \`pipectl export\` writes names; with them a destination stays the same whatever changes.`,
    )
  }
  for (const one of kept) say(`not in the file, kept: ${one} (--prune deletes it)`)
}
