/**
 * `pipectl help destinations …`: a topic for each type, and for the options that `create`, `update` and `test` share.
 */
import type { Command } from 'commander'
import { addTopics, optionsText } from '../help.ts'
import { columnHelp } from './columns.ts'
import { typeHelp, typeNames } from './config-keys.ts'
import { flushHelp } from './delivery-options.ts'
import { secretsHelp } from './secrets.ts'

export function addDestinationTopics(destinations: Command): void {
  const create = destinations.commands.find((one) => one.name() === 'create')!
  const types = [...typeNames].map(([name, type]) => [name, () => typeHelp(type)] as const)
  addTopics(
    destinations,
    new Map([
      ...types,
      ['columns', () => columnHelp],
      ['secrets', () => secretsHelp()],
      ['delivery', () => `${optionsText(create, 'Delivery:')}\n\n${flushHelp()}`],
      ['transform', () => optionsText(create, 'Transform:')],
      ['infer', () => optionsText(create, 'Table from records:')],
    ]),
  )
}
