-- Token bucket. State: when it is full again, a remainder in units of which a microsecond pays back
-- `rate`, and that rate.
-- Rule: kind, rate, the whole microseconds that an empty bucket takes to fill, and the remainder.
--
-- A cost comes as the microseconds and the remainder that it takes to refill. Debts are compared and
-- added as such pairs, so nothing here is rounded.
local function token_bucket()
  local it, stored = { sums = true }, bucket()

  function it.read(_, raw)
    local full_at, rate = stored.whole(raw)
    if full_at then return full_at, 0, rate end
    local format = stored.SHORT[#raw]
    if not format then return unpack_three(raw) end
    local head, low, rest, rate = parse(format, raw)
    return head % BEFORE * HIGH + low, rest, rate
  end

  local function is_more(micros, rest, other_micros, other_rest)
    return micros > other_micros or (micros == other_micros and rest > other_rest)
  end

  -- The same debt at another rate: (micros * old + rest) / new, bit by bit. Once after a limit has
  -- changed, for each key.
  local function converted(rule, micros, rest, old)
    local new, most, most_rest = rule[2], rule[3], rule[4]
    local quotient, remainder = 0, 0
    local bit = 1
    while bit * 2 <= micros do bit = bit * 2 end
    while bit >= 1 do
      quotient, remainder = quotient * 2, remainder * 2
      if micros >= bit then
        micros, remainder = micros - bit, remainder + old
      end
      local carried = floor(remainder / new)
      quotient, remainder = quotient + carried, remainder - carried * new
      if quotient > most then return most, most_rest end
      bit = bit / 2
    end
    remainder = remainder + rest
    local carried = floor(remainder / new)
    return quotient + carried, remainder - carried * new
  end

  -- What is owed now: no more than an empty bucket owes. And whether that differs from what is
  -- stored.
  local function debt(rule, now, full_at, rest, rate)
    local micros = full_at - now
    if micros < 0 then return 0, 0, false end
    local differs = false
    if rate ~= rule[2] and (micros > 0 or rest > 0) then
      micros, rest = converted(rule, micros, rest, rate)
      differs = true
    end
    if is_more(micros, rest, rule[3], rule[4]) then return rule[3], rule[4], true end
    return micros, rest, differs
  end

  function it.take(rule, now, full_at, rest, rate, cost, cost_rest)
    local micros
    micros, rest = debt(rule, now, full_at, rest, rate)
    rest = rest + cost_rest
    local carried = floor(rest / rule[2])
    micros, rest = micros + cost + carried, rest - carried * rule[2]
    return not is_more(micros, rest, rule[3], rule[4]), now + micros, rest, rule[2]
  end

  function it.deny(rule, now, full_at, rest, rate)
    local micros, rest, differs = debt(rule, now, full_at, rest, rate)
    if differs then return true, now + micros, rest, rule[2] end
  end

  function it.give(rule, now, full_at, rest, rate, amount, amount_rest)
    local micros, rest = debt(rule, now, full_at, rest, rate)
    -- A full bucket stays as it is: with a new timestamp, it would owe something if the clock went
    -- back.
    if micros == 0 and rest == 0 then return false end
    micros, rest = micros - amount, rest - amount_rest
    if rest < 0 then micros, rest = micros - 1, rest + rule[2] end
    if micros < 0 then micros, rest = 0, 0 end
    return true, now + micros, rest, rule[2]
  end

  -- When a state was full, and what its time to live was rounded to.
  local function rounded(raw)
    local was_full_at, _, round = stored.whole(raw)
    if was_full_at then return was_full_at, round, true end
    if not stored.SHORT[#raw] then return 0, 0 end
    local head, low = parse('>BI6', raw)
    return head % BEFORE * HIGH + low, floor(head / BEFORE)
  end

  function it.write(key, rule, now, raw, full_at, rest, rate)
    if raw then
      local was_full_at, round, is_whole = rounded(raw)
      local cell = stored.step(round)
      -- The time to live is still long enough.
      if round > 0 and floor(full_at / cell) * cell <= was_full_at then
        local state = stored.packed(rule, round, full_at, rest, rate)
        if is_whole and stored.whole(state) then return call('SET', key, state, 'KEEPTTL') end
        if not is_whole and #state == #raw then return call('SETRANGE', key, '0', state) end
      end
    end
    return stored.keep(key, rule, now, raw, full_at, rest, rate)
  end

  return it
end
