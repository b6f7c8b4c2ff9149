/** A password that somebody chooses: the contract's rule, asked for here so that nobody has to fail first. */
import type { ComponentProps } from 'react'
import { TextField } from './controls.tsx'

const shortestPassword = 10

type Props = Pick<ComponentProps<typeof TextField>, 'label' | 'value' | 'onValue' | 'error' | 'optional'> & {
  /** Said after the rule. */
  advice?: string
}

export function NewPasswordField({ advice, optional, ...rest }: Props) {
  return (
    <TextField
      {...rest}
      type="password"
      autoComplete="new-password"
      required={!optional}
      optional={optional}
      minLength={shortestPassword}
      hint={`At least ${shortestPassword} characters${advice === undefined ? '.' : advice}`}
    />
  )
}
