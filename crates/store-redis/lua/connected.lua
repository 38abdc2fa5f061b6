-- Decides requests that share keys, or have several: a flat list of numbers. A price is the index of a
-- rule with a cost: charges to one key may have different limits.
--   key, price                                       one limit
--   0, n, and n times key, price, watch              several: all pay, or none does
--   -1, key, price, amount                           refund
--   -2, key                                          reset
--   -3, n, and n times key, price                    peek
local function settle_connected(count)
  local TOGETHER, GIVE_BACK, FORGET, ENFORCED = 0, -1, -2, 0
  -- Each key's value, its own time, its state in three parts, and the rule by which it is written.
  local raw, rule, at, first, second, third = {}, {}, {}, {}, {}, {}
  -- Keys whose state differs from the stored one, and those among them that must be written.
  local stale, changed = {}, {}

  for key = count + 1, #KEYS do
    local it = rules[keys[key - count]]
    local reader = algorithm(it[1])
    raw[key], rule[key], at[key] = found[key], it, now + (phases and phases[key] or 0)
    first[key], second[key], third[key] = read(reader, it, raw[key])
    if reader.tell then found[key] = TOLD end
    if not first[key] then found[key], rule[key] = DAMAGED, nil end
  end

  -- The algorithm of a charge. Nothing passes if the value is not one of ours.
  local function by(key, it)
    return algorithm(rule[key] and it[1] or 0)
  end

  local function become(key, it, has_changed, a, b, c)
    if has_changed then
      first[key], second[key], third[key], changed[key], rule[key] = a, b, c, true, it
    end
  end

  local function tell(key, it, cost)
    local has_changed, a, b, c =
      by(key, it).tell(told, it, at[key], first[key], second[key], third[key], cost)
    first[key], second[key], third[key] = a, b, c
    if has_changed then stale[key] = true end
  end

  -- Whether a cost fits. A peek costs nothing, so it fits even if too much was taken.
  local function probe(key, it, cost, rest)
    local its = by(key, it)
    if its.tell then tell(key, it, cost) end
    local fits = its.take(it, at[key], first[key], second[key], third[key], cost, rest)
    return fits or (cost == 0 and rest == 0 and not its.never)
  end

  local function pay(passes, key, it)
    local cost, rest = it[6], it[7]
    if cost == 0 and rest == 0 then return end
    if passes then
      become(key, it, true, select(2,
        by(key, it).take(it, at[key], first[key], second[key], third[key], cost, rest)))
    else
      if stale[key] then changed[key] = true end
      become(key, it,
        by(key, it).deny(it, at[key], first[key], second[key], third[key], cost, rest))
    end
  end

  local function give(key, it, amount)
    if raw[key] or changed[key] then
      become(key, it, by(key, it).give(it, at[key], first[key], second[key], third[key], amount))
    end
  end

  local function forget(key)
    call('DEL', KEYS[key])
    raw[key], changed[key], stale[key] = false, nil, nil
    if rule[key] then
      first[key], second[key], third[key] = read(by(key, rule[key]), rule[key], nil)
    end
  end

  -- The sum of two costs, which may be of different limits.
  local function sum(it, cost, rest, other)
    local plus = algorithm(it[1]).plus
    if plus then return plus(it, cost, rest, other) end
    return cost + other[6], rest
  end

  -- A charge: its key, its rule, and the total cost of this charge and earlier ones to the same counter.
  local function charge(place, i, fits)
    local key, it = requests[place + i * 3], rules[requests[place + i * 3 + 1]]
    local cost, rest = it[6], it[7]
    for j = 0, i - 1 do
      if fits[j] and requests[place + j * 3] == key then
        cost, rest = sum(it, cost, rest, rules[requests[place + j * 3 + 1]])
      end
    end
    return key, it, cost, rest
  end

  local function settle_together(place, n)
    local fits, passes, refused = {}, true, {}
    for i = 0, n - 1 do
      local watch = requests[place + i * 3 + 2]
      fits[i] = probe(charge(place, i, fits))
      if not fits[i] then
        if watch == ENFORCED then passes = false else refused[watch] = true end
      end
    end
    for i = 0, n - 1 do
      local pays = passes and fits[i] and not refused[requests[place + i * 3 + 2]]
      pay(pays, requests[place + i * 3], rules[requests[place + i * 3 + 1]])
    end
  end

  local place, size = 1, #requests
  while place <= size do
    local key = requests[place]
    if key > 0 then
      local it = rules[requests[place + 1]]
      pay(probe(key, it, it[6], it[7]), key, it)
      place = place + 2
    elseif key == TOGETHER then
      local n = requests[place + 1]
      settle_together(place + 2, n)
      place = place + 2 + n * 3
    elseif key == GIVE_BACK then
      give(requests[place + 1], rules[requests[place + 2]], requests[place + 3])
      place = place + 4
    elseif key == FORGET then
      forget(requests[place + 1])
      place = place + 2
    else
      local n = requests[place + 1]
      for i = 0, n - 1 do
        local it = rules[requests[place + 3 + i * 2]]
        probe(requests[place + 2 + i * 2], it, it[6], it[7])
      end
      place = place + 2 + n * 2
    end
  end

  for key = count + 1, #KEYS do
    if changed[key] then
      local written = algorithm(rule[key][1]).write(
        KEYS[key], rule[key], at[key], raw[key], first[key], second[key], third[key])
      if not written then found[key] = OCCUPIED end
    end
  end
end
