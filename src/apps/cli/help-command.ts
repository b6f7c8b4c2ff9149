/** `pipectl help …`: the help of any command, and topics that are too long for it. */
import type { Command } from 'commander'
import { usageFailure } from '../client/failure.ts'
import { define } from './define.ts'
import { addTopics, fullNameOf, optionsText, topicsOf } from './help.ts'
import { io } from './io.ts'
import { nearest } from './nearest.ts'

export function addHelpCommand(program: Command): void {
  addTopics(program, new Map([['connection', () => connectionText(program)]]))
  define(program, {
    usage: 'help [words...]',
    summary: 'show the help of a command or of a topic',
    examples: ['pipectl help destinations create', 'pipectl help destinations database'],
    action: async (words) => {
      const { command, rest } = walk(program, words)
      const [word] = rest
      if (word === undefined) return command.outputHelp()
      const topics = topicsOf(command)
      const topic = topics.get(word)
      if (topic !== undefined) {
        io().stdout.write(`${topic()}\n`)
        return
      }
      const name = fullNameOf(command)
      const near = nearest(word, [...topics.keys(), ...command.commands.map((one) => one.name())])
      throw usageFailure(
        `there is no help on ${JSON.stringify(word)}`,
        `${near === null ? '' : `did you mean ${near}? `}\`${name} --help\` lists what there is`,
      )
    },
  })
}

/** Taken from `pull`, which has all of these options. */
function connectionText(program: Command): string {
  const pull = program.commands.find((one) => one.name() === 'pull')!
  return `Most commands connect to a daemon. They have these options:

${optionsText(pull, 'Connection:')}

--data-server is an option of ingest, pull and \`profile add\`. A key is never the value of a flag: other users of the machine can
read the arguments of a program. A stored key is sent only to the daemon that it was stored for.`
}

/** The command that the words select, and the remaining words. */
function walk(command: Command, words: readonly string[]): { command: Command; rest: readonly string[] } {
  const [word, ...rest] = words
  const next = command.commands.find((one) => one.name() === word)
  return next === undefined ? { command, rest: words } : walk(next, rest)
}
