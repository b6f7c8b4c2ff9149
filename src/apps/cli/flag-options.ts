/** Adds the flags of a table as options of a command. */
import { type Command, Option } from 'commander'
import type { FlagField } from '../client/flag-fields.ts'

export function addFlagOptions(command: Command, table: readonly FlagField[]): void {
  for (const { flag, takes, value, help, off } of table) {
    if (takes === 'reset') command.option(`--no-${flag}`, help)
    else if (takes === 'switch') command.option(`--${flag}`, help).option(`--no-${flag}`, off)
    else {
      const option = new Option(`--${flag} <${value}>`, help)
      if (takes === 'steps') option.argParser(repeated)
      command.addOption(typeof takes === 'string' ? option : option.choices(takes))
    }
  }
}

/** Collects the values of an option that can be given several times. */
export function repeated(value: string, earlier: readonly string[] = []): string[] {
  return [...earlier, value]
}
