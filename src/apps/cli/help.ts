/**
 * The layout of every help text: description and examples first, then usage, options and details. Also the hint after
 * wrong usage, with the most similar word and the command that shows the help.
 */
import { type Command, Help, type Option } from 'commander'
import { nearest } from './nearest.ts'

const examplesByCommand = new WeakMap<Command, readonly string[]>()
const topicsByCommand = new WeakMap<Command, Topics>()

/** Texts for `pipectl help GROUP NAME` that are too long for the help of a command. By name. */
export type Topics = ReadonlyMap<string, () => string>

/** Groups of options that the help of a command only mentions, by heading, with the topic that describes them. */
export const foldedOptions = {
  'Connection:': 'connection',
  'Config:': 'destinations TYPE',
  'Delivery:': 'destinations delivery',
  'Transform:': 'destinations transform',
  'Table from records:': 'destinations infer',
} as const
export type FoldedHeading = keyof typeof foldedOptions

const isFolded = ({ helpGroupHeading: heading }: Option) =>
  heading !== undefined && Object.hasOwn(foldedOptions, heading)

/** The options that `add` adds get a heading that the help collapses. */
export function folded(command: Command, heading: FoldedHeading, add: () => void): void {
  command.optionsGroup(heading)
  add()
  command.optionsGroup('')
}

export function addExamples(command: Command, examples: readonly string[]): Command {
  examplesByCommand.set(command, examples)
  return command
}

export function addTopics(command: Command, topics: Topics): void {
  topicsByCommand.set(command, topics)
}

export function topicsOf(command: Command): Topics {
  return topicsByCommand.get(command) ?? new Map()
}

/** A group shows the first examples of its commands. */
export function examplesOf(command: Command): readonly string[] {
  const own = examplesByCommand.get(command)
  if (own !== undefined) return own
  return command.commands.flatMap((child) => examplesOf(child).slice(0, 1)).slice(0, maxPerGroup)
}
const maxPerGroup = 4

/**
 * Applies to this command and its subcommands. Complete commands that were added inherit nothing, so each is
 * configured.
 */
export function shapeHelp(command: Command): void {
  command.configureHelp({
    commandDescription: () => '',
    formatHelp: (_, helper) => formatted(command, helper),
    subcommandTerm: (child) => [child.name(), ...child.registeredArguments.map(argumentTerm)].join(' '),
  })
  command.addHelpText('before', () => beginning(command))
  for (const child of command.commands) shapeHelp(child)
}

function formatted(command: Command, helper: Help): string {
  const shortened: Help = Object.assign(Object.create(helper) as Help, {
    visibleOptions: (one: Command) => helper.visibleOptions(one).filter((option) => !isFolded(option)),
  })
  const text = Help.prototype.formatHelp.call(shortened, command, shortened).trimEnd()
  const options = Object.entries(foldedOptions).map(([heading, topic]) => ({
    heading,
    names: optionsUnder(command, heading).map((one) => one.long ?? one.flags),
    topic,
  }))
  const topics = {
    heading: 'Topics:',
    names: [...topicsOf(command).keys()],
    topic: [...fullNameOf(command).split(' ').slice(1), 'NAME'].join(' '),
  }
  const width = (helper.helpWidth ?? 80) - 2
  const lines = [...options, topics]
    .filter(({ names }) => names.length > 0)
    .map(({ heading, names, topic }) =>
      helper
        .boxWrap(`${heading} ${names.join(', ')} (\`pipectl help ${topic}\`)`, width)
        .replaceAll('\n', '\n  '),
    )
  return `${[text, ...(lines.length === 0 ? [] : ['', ...lines])].join('\n')}\n`
}

function optionsUnder({ options }: Command, heading: string): Option[] {
  return options.filter((one) => one.helpGroupHeading === heading)
}

/** Describes the options of a command that its help collapses. */
export function optionsText(command: Command, heading: FoldedHeading): string {
  const helper = command.createHelp()
  helper.prepareContext({ helpWidth: command.configureOutput().getOutHelpWidth?.() ?? 80 })
  const options = optionsUnder(command, heading)
  const width = Math.max(...options.map((one) => one.flags.length))
  const described = options.map((one) =>
    helper.formatItem(one.flags, width, helper.optionDescription(one), helper),
  )
  return described.join('\n')
}

function argumentTerm(argument: Command['registeredArguments'][number]): string {
  const text = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${text}>` : `[${text}]`
}

function beginning(command: Command): string {
  const examples = examplesOf(command).map((line) => `  ${line}\n`)
  const heading = examples.length === 1 ? 'Example' : 'Examples'
  const shown = examples.length === 0 ? '' : `\n${heading}:\n${examples.join('')}`
  return `${sentence(command.description())}\n${shown}`
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith('.') ? '' : '.'}`
}

export function fullNameOf(command: Command): string {
  return command.parent === null ? command.name() : `${fullNameOf(command.parent)} ${command.name()}`
}

/** The next step after commander's message about wrong usage. */
export function usageHint(command: Command, message: string): string {
  const name = fullNameOf(command)
  const help = `\`${name} --help\` ${command.commands.length > 0 ? 'lists its commands' : 'shows its arguments and options'}`
  const [, kind, word = ''] = /^unknown (option|command) '(.*)'/.exec(message) ?? []
  if (kind !== undefined) {
    const near = kind === 'option' ? similarOptions(command, word) : similarCommands(command, word)
    return near.length === 0 ? help : `did you mean ${alternatives(near)}? ${help}`
  }
  const [example] = examplesOf(command)
  return /missing|not specified/.test(message) && example !== undefined
    ? `for example \`${example}\`; ${help}`
    : help
}

function similarCommands({ commands }: Command, word: string): string[] {
  return nearestIn(
    word,
    commands.map((one) => one.name()).filter((name) => !name.startsWith('__')),
  )
}

/** The most similar option, or those that start with the word: `--records` for `--records-per-second`. */
function similarOptions(command: Command, word: string): string[] {
  const names = [...command.options, ...(command.parent?.options ?? [])].flatMap((one) => one.long ?? [])
  const near = nearestIn(word, [...names, '--help'])
  return near.length > 0 ? near : names.filter((one) => word.length > 3 && one.startsWith(word)).slice(0, 3)
}

function nearestIn(word: string, names: readonly string[]): string[] {
  const near = nearest(word, names)
  return near === null ? [] : [near]
}

/** `a`, `a or b`, `a, b or c`. */
function alternatives(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
